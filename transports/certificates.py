"""Makes the certificates of one survey: an authority, and one certificate per identity key."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocol.messages import PartyId


class Authority:
    """A certificate authority for one survey. It vouches that a key belongs to a party id.

    Args:
        key: the authority's own key.
        now: start of the certificates' validity.
        days: for how long they are.
    """

    def __init__(self, key: Ed25519PrivateKey, *, now: datetime.datetime, days: int) -> None:
        self._key = key
        self._from = now - datetime.timedelta(minutes=5)
        self._until = now + datetime.timedelta(days=days)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "survey authority")])
        usage = x509.KeyUsage(
            digital_signature=False,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = (
            self._builder(self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(self._own_id(), critical=False)
            .sign(key, None)
        )

    def __repr__(self) -> str:
        return "Authority()"

    @property
    def pem(self) -> bytes:
        """The authority's certificate."""
        return self._certificate.public_bytes(Encoding.PEM)

    def issue(self, party: PartyId, public: bytes) -> bytes:
        """A certificate for a party's public Ed25519 key, PEM; its DNS name is the party's id.

        Raises:
            ValueError: not such a key.
        """
        key = Ed25519PublicKey.from_public_bytes(public)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, party)])
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return (
            self._builder(name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(party)]), False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._own_id()),
                critical=False,
            )
            .sign(self._key, None)
            .public_bytes(Encoding.PEM)
        )

    def _own_id(self) -> x509.SubjectKeyIdentifier:
        return x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())

    def _builder(self, subject: x509.Name, key: Ed25519PublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._from)
            .not_valid_after(self._until)
        )


def private_pem(key: Ed25519PrivateKey) -> bytes:
    """A private key as unencrypted PKCS 8 PEM."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
