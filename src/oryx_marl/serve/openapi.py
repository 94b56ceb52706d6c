"""The OpenAPI document: what can be asked of a server, and what it answers.

It is the same for every policy, so that who has no token learns nothing from it.
"""

from typing import Any

import oryx_marl

DESCRIPTION = """A trained multi-agent policy: shown what the agents see, it says what they do.
With a session the server remembers the episode between two requests; with /v1/act the client does,
and brings the state with each request, which survives a restart of the server. Every error has the
form of Error: a code for programs, a sentence for people."""
SESSION = {
    "name": "session",
    "in": "path",
    "required": True,
    "description": "what POST /v1/sessions gave",
    "schema": {"type": "string", "minLength": 1, "maxLength": 64},
}


def make_document() -> dict[str, Any]:
    """The document, as JSON."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "oryx serve",
            "version": oryx_marl.__version__,
            "description": DESCRIPTION.replace("\n", " "),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": _schemas(),
            "responses": {
                "Error": {
                    "description": "what was wrong",
                    "content": {"application/json": {"schema": _ref("Error")}},
                }
            },
        },
    }


def _paths() -> dict[str, Any]:
    name = "/v1/sessions/{session}"
    return {
        "/v1/policy": {"get": _operation("the policy: agents, actions, limits", "Policy")},
        "/v1/act": {
            "post": _operation("act, with the state in the request", "StateAnswer", "StateStep")
        },
        "/v1/sessions": {
            "post": _operation("begin a session", "Session", "Begin", status=201, optional=True)
        },
        name: {
            "parameters": [SESSION],
            "get": _operation("where a session is", "Session"),
            "delete": _operation("end a session", None, status=204),
        },
        f"{name}/act": {
            "parameters": [SESSION],
            "post": _operation("act in a session", "Answer", "Step"),
        },
        f"{name}/reset": {
            "parameters": [SESSION],
            "post": _operation("begin the session's next episode", "Session"),
        },
        "/healthz": {"get": _public("whether the process lives", "application/json")},
        "/readyz": {"get": _public("whether it takes requests", "application/json")},
        "/metrics": {"get": _plain("numbers for Prometheus", "text/plain")},
        "/openapi.json": {"get": _public("this document", "application/json")},
        "/docs": {"get": _public("this document as a page", "text/html")},
    }


def _operation(
    summary: str,
    answer: str | None,
    body: str | None = None,
    status: int = 200,
    optional: bool = False,
) -> dict[str, Any]:
    content = {} if answer is None else {"content": _content("application/json", _ref(answer))}
    found: dict[str, Any] = {
        "summary": summary,
        "responses": {
            str(status): {"description": "done", **content},
            "4XX": {"$ref": "#/components/responses/Error"},
            "5XX": {"$ref": "#/components/responses/Error"},
        },
    }
    if body is not None:
        content = _content("application/json", _ref(body))
        found["requestBody"] = {"required": not optional, "content": content}
    return found


def _plain(summary: str, kind: str) -> dict[str, Any]:
    error = {"$ref": "#/components/responses/Error"}
    done = {"description": "done", "content": _content(kind, {})}
    return {"summary": summary, "responses": {"200": done, "4XX": error, "5XX": error}}


def _public(summary: str, kind: str) -> dict[str, Any]:
    return {**_plain(summary, kind), "security": []}


def _content(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": schema}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> dict[str, Any]:
    step = _whole("number of the step in its episode, from 0 on")
    actions = {
        "description": "of each agent, a number or the list of a box; as the observations are: in "
        "their order, or by name",
        "type": ["array", "object"],
    }
    given = _text("to be brought with the next request, as it is")
    answer = {"step": step, "actions": actions}
    asked = _whole(
        "number of this step: sent again with the same request, it gives the same answer; "
        "left out, it is the next one"
    )
    brought = _text("of the last answer; none begins an episode")
    error = {"code": _text("for programs"), "message": _text("for people")}
    return {
        "Step": _object({"step": asked, **_shown()}, ["observations"]),
        "Answer": _object({"session": _text("its name"), **answer}),
        "StateStep": _object({"state": brought, **_shown(), **_begun()}, ["observations"]),
        "StateAnswer": _object({**answer, "state": given}),
        "Begin": _object(_begun(), []),
        "Session": _session(),
        "Policy": _policy(),
        "Error": _object({"error": _object(error)}),
    }


def _shown() -> dict[str, Any]:
    """Entries of a step."""
    return {
        "observations": _per_agent(
            "features of each agent, or {observation, action_mask}; agents that are left out or "
            "null are absent"
        ),
        "action_mask": _per_agent("which actions each agent may take (default: all)"),
        "rewards": _per_agent("of the step before, which some policies want to know"),
        "noise": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "number"}},
            "description": "standard noise [agents][actions] in place of that drawn here",
        },
    }


def _begun() -> dict[str, Any]:
    """Entries of an episode's beginning."""
    return {
        "act": {
            "oneOf": [
                {"type": "string", "enum": ["sampled", "greedy"]},
                {"type": "number", "minimum": 0, "maximum": 1000},
            ],
            "description": "how to act: sampled, greedy or a temperature (default: the server's)",
        },
        "random_seed": _whole("of the draws: the same number gives the same actions"),
        "episode": _whole("number of the episode, which draws other random numbers"),
    }


def _session() -> dict[str, Any]:
    fields = {
        "session": _text("its name, which is a secret"),
        "step": _whole("number of the next step"),
        "episode": _whole("number of the episode"),
        "act": _text("how it acts"),
        "random_seed": _whole("of the draws"),
        "expires_in": {
            "type": "number",
            "description": "seconds without a request after which it ends",
        },
    }
    return _object(fields)


def _policy() -> dict[str, Any]:
    numbers = {"type": "array", "items": {"type": "number"}}
    action = {
        "kind": {"type": "string", "enum": ["discrete", "box"]},
        "size": _whole("number of actions, or of dimensions"),
        "low": {**numbers, "description": "bounds of a box"},
        "high": numbers,
    }
    fields = {
        "policy": {"type": "string", "description": "what states belong to"},
        "algorithm": {"type": "string"},
        "seed": {"type": "integer", "description": "of the training"},
        "update": {"type": ["integer", "null"], "description": "of the training"},
        "sha256": {"type": "string", "description": "of the policy file"},
        "agents": {"type": "array", "items": {"type": "string"}},
        "observation_sizes": {"type": "array", "items": {"type": "integer"}},
        "action": _object(action),
        "action_names": {"type": ["array", "null"], "items": {"type": "string"}},
        "act": {"type": "string", "description": "how it acts where nothing is said"},
        "noise": {"type": "string", "enum": ["gumbel", "normal"]},
        "state_bytes": _whole("of the recurrent state of one episode"),
        "limits": {"type": "object", "additionalProperties": {"type": "number"}},
        "version": {"type": "string", "description": "of oryx-marl"},
    }
    return _object(fields)


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    """An object, whose entries are all required unless some are named."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


def _text(about: str) -> dict[str, Any]:
    return {"type": "string", "description": about}


def _per_agent(about: str) -> dict[str, Any]:
    return {"type": ["array", "object"], "description": f"{about}; in the agents' order or by name"}


def _whole(about: str) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "description": about}
