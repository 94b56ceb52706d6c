"""The OpenAPI document as one page of HTML, which loads nothing and runs nothing."""

import html
from collections.abc import Iterator
from typing import Any

STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:54rem;margin:2rem auto;padding:0 1rem}
code{background:#8882;padding:0 .2em;border-radius:3px}h2{margin-top:2rem}
table{border-collapse:collapse;width:100%}td,th{border-top:1px solid #8886;padding:.2rem .5rem;
text-align:left;vertical-align:top}summary{cursor:pointer}:root{color-scheme:light dark}"""


def render(document: dict[str, Any]) -> str:
    """The page of a document."""
    info = document["info"]
    title = f"{_text(info['title'])} {_text(info['version'])}"
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>",
        "<meta name=viewport content='width=device-width'>",
        f"<style>{STYLE}</style><h1>{title}</h1><p>{_text(info['description'])}</p>",
        "<p>For programs: <a href=openapi.json>openapi.json</a>. Where the server has a token, "
        "send <code>Authorization: Bearer TOKEN</code>.</p><h2>Requests</h2>",
        "<table><tr><th>Request<th>What it does<th>Sends<th>Gives</tr>",
        *_requests(document["paths"]),
        "</table>",
        *_schemas(document["components"]["schemas"]),
        "</html>",
    ]
    return "\n".join(parts)


def _requests(paths: dict[str, Any]) -> Iterator[str]:
    for path, operations in paths.items():
        for method, operation in operations.items():
            if method == "parameters":
                continue
            body = operation.get("requestBody", {})
            done = next(each for code, each in operation["responses"].items() if code[0] == "2")
            is_open = " (no token)" if operation.get("security") == [] else ""
            yield (
                f"<tr><td><code>{method.upper()} {_text(path)}</code>"
                f"<td>{_text(operation['summary'])}{is_open}<td>{_link(body)}<td>{_link(done)}</tr>"
            )


def _link(part: dict[str, Any]) -> str:
    """To the schema of a body."""
    for kind, content in part.get("content", {}).items():
        name = content["schema"].get("$ref", "").rpartition("/")[2]
        return f"<a href='#{_text(name)}'>{_text(name)}</a>" if name else _text(kind)
    return ""


def _schemas(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in schemas.items():
        yield f"<h2 id='{_text(name)}'>{_text(name)}</h2><table>"
        for field, about in schema["properties"].items():
            needed = "" if field in schema["required"] else " (may be left out)"
            yield (
                f"<tr><td><code>{_text(field)}</code>{needed}<td>{_text(_kind(about))}"
                f"<td>{_text(about.get('description', ''))}</tr>"
            )
        yield "</table>"


def _kind(schema: dict[str, Any]) -> str:
    """The type of a value, in words."""
    if "oneOf" in schema:
        return " or ".join(map(_kind, schema["oneOf"]))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "properties" in schema:
        return "object of " + ", ".join(schema["properties"])
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)
