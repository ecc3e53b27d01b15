"""Messages and envelopes to bytes and back: codec, arrays, frames, canonical digest."""
