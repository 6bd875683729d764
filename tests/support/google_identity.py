"""A stand-in of Google's identity: tokens, federation, metadata, gcloud; and tokens that are bad.

with google_identity() as google:
    google.certs                                   # XMCLOUD_GOOGLE_CERTS of the control plane
    google.id_token("ada@example.com", audience)   # as Google would give it
    google.id_token(..., lifetime=-60)             # any claim, any key, any algorithm
    google.person("ada@example.com")               # application default credentials, as JSON
    google.key("bot@p.iam.gserviceaccount.com")    # a service account's key
    google.federated(account, subject_token_file)  # workload identity federation
    google.environment(folder, gcloud="ada@..")    # what commands of this machine see
"""

import base64
import hashlib
import hmac
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

ISSUER = "https://accounts.google.com"
GCLOUD_CLIENT = "32555940559.apps.googleusercontent.com"
ADC_CLIENT = "764086051850-6qr4p6gpi6hn506pt8ejuq83di341hur.apps.googleusercontent.com"
SUBJECT_TOKEN = "the-token-of-the-other-cloud"


@dataclass(frozen=True)
class SigningKey:
    """A key with its certificate."""

    id: str
    private: rsa.RSAPrivateKey
    certificate: str

    @classmethod
    def new(cls, id: str) -> "SigningKey":
        private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "google-stand-in")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(private.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
            .sign(private, hashes.SHA256())
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
        return cls(id, private, pem)

    @property
    def pem(self) -> str:
        return self.private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()


@cache
def _keys() -> tuple[SigningKey, SigningKey, SigningKey]:
    """Google's, somebody else's, and that of all service accounts."""
    return SigningKey.new("google-1"), SigningKey.new("google-1"), SigningKey.new("account-1")


@dataclass
class Google:
    """What was asked for is in `asked`, a word each.

    `lifetime` is what is left of the hour of the tokens to come: 60 is one to be replaced at once,
    -60 one that has expired.
    """

    url: str
    lifetime: float = 3600.0
    asked: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    down: bool = False
    refuses: bool = False
    serial: int = 0

    @property
    def certs(self) -> str:
        return f"{self.url}/certs"

    @property
    def stranger(self) -> SigningKey:
        """Another key, under the id of Google's."""
        return _keys()[1]

    def id_token(
        self,
        account: str,
        audience: str,
        *,
        lifetime: float | None = None,
        key: SigningKey | None = None,
        algorithm: str = "RS256",
        header: Mapping[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """`algorithm`: RS256, `none`, or HS256 with the certificate as the secret.

        A claim that is None is left out.
        """
        signer, now = key or _keys()[0], int(time.time())
        lifetime = self.lifetime if lifetime is None else lifetime
        self.serial += 1
        payload = {
            "iss": ISSUER,
            "aud": audience,
            "sub": hashlib.sha256(account.encode()).hexdigest()[:20],
            "email": account,
            "email_verified": True,
            "iat": now + int(lifetime) - 3600,
            "exp": now + int(lifetime),
            "jti": str(self.serial),
            **claims,
        }
        told = {name: value for name, value in payload.items() if value is not None}
        top = {"alg": algorithm, "kid": signer.id, "typ": "JWT", **(header or {})}
        signed = f"{_encoded(top)}.{_encoded(told)}"
        token = f"{signed}.{_base64(_signature(signed.encode(), signer, algorithm))}"
        self.given.append(token)
        return token

    def person(self, email: str, *, openid: bool = True) -> dict[str, str]:
        """As `gcloud auth application-default login` writes it."""
        secret = f"1//{'' if openid else 'no-openid-'}{email}"
        self.secrets.append(secret)
        return {
            "type": "authorized_user",
            "client_id": ADC_CLIENT,
            "client_secret": "not-secret",
            "refresh_token": secret,
            "token_uri": f"{self.url}/token",
        }

    def key(self, email: str) -> dict[str, str]:
        """As `gcloud iam service-accounts keys create` writes it."""
        return {
            "type": "service_account",
            "project_id": "p",
            "private_key_id": _keys()[2].id,
            "private_key": _keys()[2].pem,
            "client_email": email,
            "client_id": "1",
            "token_uri": f"{self.url}/token",
        }

    def federated(self, account: str, subject: Path) -> dict[str, Any]:
        """As `gcloud iam workload-identity-pools create-cred-config` writes it."""
        subject.write_text(SUBJECT_TOKEN)
        return {
            "type": "external_account",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools"
            "/workers/providers/own",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{self.url}/sts",
            "credential_source": {"file": str(subject)},
            "service_account_impersonation_url": self._impersonation(account),
        }

    def impersonated(self, account: str, source: Mapping[str, Any]) -> dict[str, Any]:
        """As `gcloud auth application-default login --impersonate-service-account` writes it."""
        return {
            "type": "impersonated_service_account",
            "service_account_impersonation_url": self._impersonation(account),
            "delegates": [],
            "source_credentials": dict(source),
        }

    def _impersonation(self, account: str) -> str:
        return f"{self.url}/v1/projects/-/serviceAccounts/{account}:generateAccessToken"

    def install_gcloud(self, folder: Path, account: str) -> Path:
        """A program `gcloud` in that folder, signed in as that account."""
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "gcloud"
        program.write_text(_GCLOUD.format(python=sys.executable, url=self.url, account=account))
        program.chmod(0o755)
        return program

    def answer(self, path: str, headers: Mapping[str, str], body: bytes) -> "Answer":
        """What the server says to a request; names of headers are in small letters."""
        if self.down:
            return Answer({"error": "unavailable"}, 503)
        if self.refuses:
            return Answer({"error": "invalid_grant", "error_description": "Revoked"}, 400)
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        form = {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
        match parts.path:
            case "/certs":
                self.asked.append("certs")
                return Answer({_keys()[0].id: _keys()[0].certificate})
            case "/token":
                return self._token(form)
            case "/sts":
                return self._exchanged(form)
            case "/gcloud":
                return self._gcloud(query)
        if parts.path.startswith("/computeMetadata/"):
            return self._metadata(parts.path, query, headers)
        if parts.path.endswith(":generateIdToken"):
            return self._impersonated(parts.path, headers, json.loads(body))
        return Answer({"metadata": "flavor"}) if parts.path == "/" else Answer({}, 404)

    def _token(self, form: Mapping[str, str]) -> "Answer":
        if form["grant_type"] == "refresh_token":
            self.asked.append("refresh")
            email = form["refresh_token"].removeprefix("1//").removeprefix("no-openid-")
            answer = {"access_token": self._access_token(email), "expires_in": 3600}
            if "no-openid" not in form["refresh_token"]:
                answer["id_token"] = self.id_token(email, form["client_id"])
            return Answer(answer)
        claims = _assertion(form["assertion"])
        if claims is None:
            return Answer({"error": "invalid_grant", "error_description": "Bad signature"}, 400)
        if "target_audience" not in claims:
            self.asked.append("key-access")
            return Answer({"access_token": self._access_token(claims["iss"]), "expires_in": 3600})
        self.asked.append("key")
        return Answer({"id_token": self.id_token(claims["iss"], claims["target_audience"])})

    def _exchanged(self, form: Mapping[str, str]) -> "Answer":
        self.asked.append("sts")
        if form["subject_token"] != SUBJECT_TOKEN:
            return Answer({"error": "invalid_grant", "error_description": "Not yours"}, 400)
        kind = "urn:ietf:params:oauth:token-type:access_token"
        answer = {"access_token": self._access_token("federated"), "issued_token_type": kind}
        return Answer({**answer, "token_type": "Bearer", "expires_in": 3600})

    def _impersonated(
        self, path: str, headers: Mapping[str, str], wanted: Mapping[str, Any]
    ) -> "Answer":
        self.asked.append("impersonate")
        account = unquote(path.rpartition("/")[2].partition(":")[0])
        bearer = str(headers.get("authorization", "")).removeprefix("Bearer ")
        if bearer not in self.secrets or account.startswith("nobody"):
            return Answer({"error": {"code": 403, "message": "denied"}}, 403)
        email = account if wanted.get("includeEmail") else None
        return Answer({"token": self.id_token(account, wanted["audience"], email=email)})

    def _metadata(
        self, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> "Answer":
        if headers.get("metadata-flavor") != "Google":
            return Answer({}, 403)
        account = "machine@p.iam.gserviceaccount.com"
        if path.endswith("/identity"):
            self.asked.append("metadata")
            email = account if query.get("format") == "full" else None
            return Answer(self.id_token(account, query["audience"], email=email))
        return Answer({"email": account, "aliases": ["default"], "scopes": []})

    def _gcloud(self, query: Mapping[str, str]) -> "Answer":
        self.asked.append("gcloud")
        account, audience = query["account"], query.get("audience", "")
        if audience and not account.endswith(".gserviceaccount.com"):
            said = "Invalid account Type for `--audiences`. Requires valid service account."
            return Answer(f"ERROR: (gcloud.auth.print-identity-token) {said}", 400)
        return Answer(self.id_token(account, audience or GCLOUD_CLIENT))

    def _access_token(self, email: str) -> str:
        self.secrets.append(f"ya29.{len(self.secrets)}-{email}")
        return self.secrets[-1]


_GCLOUD = """#!{python} -IS
import sys, urllib.error, urllib.parse, urllib.request
if sys.argv[1:3] != ["auth", "print-identity-token"]:
    sys.exit("ERROR: unknown command " + " ".join(sys.argv[1:]))
query = {{"account": "{account}"}}
for flag in sys.argv[3:]:
    if flag.startswith("--audiences="):
        query["audience"] = flag.partition("=")[2]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
try:
    print(opener.open("{url}/gcloud?" + urllib.parse.urlencode(query)).read().decode())
except urllib.error.HTTPError as error:
    sys.exit(error.read().decode())
"""


@dataclass(frozen=True)
class Answer:
    """JSON, or text as it is."""

    body: Any
    status: int = 200

    def encoded(self) -> bytes:
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.encode()


@contextmanager
def google_identity() -> Iterator[Google]:
    """Serves on loopback, in threads of this process."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    google = Google(f"http://127.0.0.1:{server.server_address[1]}")

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = google.answer(self.path, headers, body)
            data, kind = answer.encoded(), "application/json"
            self.send_response(answer.status)
            self.send_header("Content-Type", "text/html" if isinstance(answer.body, str) else kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Metadata-Flavor", "Google")
            self.send_header("Cache-Control", "public, max-age=3600")
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _serve  # noqa: N815 - names that the base class calls

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    server.RequestHandlerClass = Handler
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield google
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _assertion(token: str) -> Any:
    """What a service account says of itself; None if it is not signed with its key."""
    signed, _, signature = token.rpartition(".")
    public = _keys()[2].private.public_key()
    try:
        public.verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    except Exception:  # noqa: BLE001 - whatever is wrong with it
        return None
    return json.loads(_decoded(signed.partition(".")[2]))


def _signature(signed: bytes, key: SigningKey, algorithm: str) -> bytes:
    if algorithm == "none":
        return b""
    if algorithm == "HS256":
        return hmac.digest(key.certificate.encode(), signed, "sha256")
    return key.private.sign(signed, padding.PKCS1v15(), hashes.SHA256())


def _encoded(part: Mapping[str, Any]) -> str:
    return _base64(json.dumps(part).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
