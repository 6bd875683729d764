"""What every answer tells browsers: to keep nothing, to run nothing, to be framed by nobody.

The API knows its callers by a header that no page can make a browser add, and sets no cookies;
so there is nothing that another site could use. Headers: OWASP's REST Security Cheat Sheet.
"""

import base64
import hashlib

from starlette.datastructures import MutableHeaders
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SWAGGER = "https://cdn.jsdelivr.net/npm/swagger-ui-dist@5.35.0"
_SCRIPT_DIGEST = "sha384-gjRm0bEPMeTmMh5jT2cHccIwCUZSTd8YC+j0d0sXw0MdGEfScduGpSyF3ZSSLkX9"
_STYLE_DIGEST = "sha384-WlYgdmXYOOBWL5apwjDEZwN+U3HmXSSu5R6V5aGxEcf7z+KuRNwBhoxKVN1i3D5I"
_START = 'SwaggerUIBundle({url: "openapi.json", dom_id: "#page", deepLinking: true})'
_PAGE = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>xmcloud: the HTTP API</title>
<link rel="stylesheet" href="{_SWAGGER}/swagger-ui.css"
 integrity="{_STYLE_DIGEST}" crossorigin="anonymous">
</head>
<body>
<div id="page"></div>
<noscript>The document itself: <a href="openapi.json">openapi.json</a></noscript>
<script src="{_SWAGGER}/swagger-ui-bundle.js"
 integrity="{_SCRIPT_DIGEST}" crossorigin="anonymous"></script>
<script>{_START}</script>
</body>
</html>
"""


def _policy_of_docs() -> str:
    digest = base64.b64encode(hashlib.sha256(_START.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src {_SWAGGER}/ 'sha256-{digest}';"
        f" style-src {_SWAGGER}/ 'unsafe-inline'; img-src data:; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": "max-age=63072000",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Unless an answer sets them itself."""


def docs_page() -> HTMLResponse:
    """The API as Swagger UI shows it: of that one version of it, whose content is pinned."""
    return HTMLResponse(_PAGE, headers={"Content-Security-Policy": _policy_of_docs()})


class SecurityHeaders:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, guarded)
