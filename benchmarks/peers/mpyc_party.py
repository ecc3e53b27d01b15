"""``python mpyc_party.py CELLS -M10 --no-log`` starts ten parties of MPyC, which add up vectors.

A line on the first party's standard input asks for one sum. That party prints how many seconds it
took, from the moment when all have been told to begin, and the sum of all cells.
"""

import sys
import time

import numpy as np
from mpyc.runtime import mpc

CELLS = int(sys.argv[1])


async def add_up() -> None:
    """Sum after sum, until the input ends."""
    field = mpc.SecFld(modulus=len(mpc.parties) + 1)
    mine = np.random.default_rng(mpc.pid).integers(0, 2, CELLS)
    async with mpc:
        first = mpc.pid == 0
        while await mpc.transfer(sys.stdin.readline() if first else None, senders=0):
            started = time.perf_counter()
            inputs = mpc.input(field.array(mine))
            total = await mpc.output(sum(inputs[1:], inputs[0]))
            seconds = time.perf_counter() - started
            if first:
                print(seconds, sum(map(int, total)), flush=True)


mpc.run(add_up())
