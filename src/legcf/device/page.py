# SPDX-License-Identifier: Apache-2.0
"""Make pages that answer from a model file without a server: one HTML file, or a folder for any static host.

Both are the server's page (`legcf/server/web`) with `backend.js` of this folder instead of the one that asks a server.
"""

import base64
import hashlib
import json
import re
from html import escape
from pathlib import Path

from legcf.core.files import written_whole

_HERE = Path(__file__).parent
_WEB = _HERE.parent / "server" / "web"
_IMPORT = re.compile(r'^import \{ ([^}]+) \} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (const|class) ([\w$]+)", re.MULTILINE)
_SERVER_ONLY = re.compile(r"<!-- server -->.*?<!-- /server -->\n?", re.DOTALL)
_COLOUR = "#3b5bdb"  # that of the page's accents


def write_page(model: bytes, path: Path) -> int:
    """Write one HTML file that holds the model and opens by a double click, without a network; return its bytes.

    Its content security policy forbids every request: what somebody picks cannot leave the device.
    """
    inside = f'<script type="application/octet-stream" id="model">{base64.b64encode(model).decode()}</script>\n'
    icon = "data:image/svg+xml;base64," + base64.b64encode((_WEB / "icon.svg").read_bytes()).decode()
    return _write(path, _page(_bundle(), icon, "default-src 'none'; img-src data:", inside).encode())


def write_folder(model: bytes, folder: Path) -> int:
    """Write a folder for any static host: the page, the reader, the model, and a service worker that keeps them.

    Return the bytes of all files.
    """
    policy = "default-src 'none'; img-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'"
    script = _bundle(apart={"legcf"})
    page = _page(script, "icon.svg", policy, '<link rel="manifest" href="manifest.webmanifest">\n', "'self' ")
    files = {
        "index.html": page.encode(),
        "legcf.js": (_HERE / "legcf.js").read_bytes(),
        "model.legcf": model,
        "icon.svg": (_WEB / "icon.svg").read_bytes(),
        "manifest.webmanifest": json.dumps(_manifest(), indent=2).encode(),
    }
    version = hashlib.sha256(b"".join(files.values())).hexdigest()[:16]
    worker = (_HERE / "service-worker.js").read_text().replace("@version@", version)
    files["service-worker.js"] = worker.encode()
    return sum(_write(folder / name, content) for name, content in files.items())


def _write(path: Path, content: bytes) -> int:
    with written_whole(path) as temporary:
        temporary.write_bytes(content)
    return len(content)


def _page(script: str, icon: str, policy: str, more: str, scripts: str = "") -> str:
    """Return the server's page with style and script inside, and without what needs a server."""
    style, theme = ((_WEB / name).read_text() for name in ("style.css", "theme.js"))
    policy += f"; style-src {_hash(style)}; script-src {scripts}{_hash(theme)} {_hash(script)}; base-uri 'none'"
    html = _SERVER_ONLY.sub("", (_WEB / "index.html").read_text()).replace("/static/icon.svg", icon)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy, quote=True)}">'
    html = html.replace('<meta charset="utf-8">\n', f'<meta charset="utf-8">\n{meta}\n', 1)
    html = html.replace('<link rel="stylesheet" href="/static/style.css">\n', f"<style>{style}</style>\n", 1)
    html = html.replace('<script src="/static/theme.js"></script>\n', f"<script>{theme}</script>\n", 1)
    # the script comes last: when it starts, the model is there
    html = html.replace('<script src="/static/app.js" type="module"></script>\n', "", 1)
    return html.replace("</body>", f'{more}<script type="module">{script}</script>\n</body>', 1)


def _hash(source: str) -> str:
    """Return what a content security policy names a script or style by."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def _manifest() -> dict[str, object]:
    return {
        "name": "legcf recommendations",
        "short_name": "legcf",
        "start_url": "./",
        "display": "standalone",
        "theme_color": _COLOUR,
        "background_color": "#f4f5f8",
        "icons": [{"src": "icon.svg", "sizes": "any", "type": "image/svg+xml"}],
    }


def _bundle(apart: frozenset[str] | set[str] = frozenset()) -> str:
    """Return the modules of the page as one script, each in a scope of its own; those `apart` are imported."""
    parts: list[str] = []
    done: set[str] = set()

    def add(name: str) -> None:
        if name in done:
            return
        done.add(name)
        source = _source(name)
        for found in _IMPORT.finditer(source):
            if found[2] not in apart:
                add(found[2])
        names = ", ".join(found[2] for found in _EXPORT.finditer(source))
        body = _EXPORT.sub(r"\1 \2", _IMPORT.sub(lambda found: _taken(found, apart), source))
        imported = "".join(found[0] for found in _IMPORT.finditer(source) if found[2] in apart)
        parts.append(f"{imported}const module_{name} = (() => {{\n{body}return {{ {names} }};\n}})();\n")

    add("app")
    script = "".join(parts)
    if "</script" in script or "import {" in re.sub(r'^import \{[^}]*\} from "\./legcf\.js";$', "", script, flags=re.M):
        raise AssertionError("the page's modules cannot be put into one script")
    return script


def _taken(found: re.Match[str], apart: frozenset[str] | set[str]) -> str:
    return "" if found[2] in apart else f"const {{ {found[1]} }} = module_{found[2]};\n"


def _source(name: str) -> str:
    """Return a module of the page: this folder's own, or the server's."""
    own = _HERE / f"{name}.js"
    return (own if own.exists() else _WEB / f"{name}.js").read_text()
