"""The two request forms of NX-API, and how each reports errors."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from switchlab.nexus.session import Reply, Session

MAX_COMMANDS = 64
Answer = tuple[HTTPStatus, object]


def answer_json_rpc(session: Session, request: object) -> Answer:
    """Answer one call or a batch; a batch stops at the first error, as `stop-on-error` does."""
    calls = request if isinstance(request, list) else [request]
    answers: list[dict[str, object]] = []
    for call in calls[:MAX_COMMANDS]:
        answers.append(_json_rpc_call(session, call))
        if "error" in answers[-1]:
            break
    if not answers:
        answers = [_rpc_error(None, -32600, "Invalid Request", "")]
    failed = "error" in answers[-1]
    document = answers if isinstance(request, list) and len(answers) > 1 else answers[0]
    return (HTTPStatus.INTERNAL_SERVER_ERROR if failed else HTTPStatus.OK), document


def _json_rpc_call(session: Session, call: object) -> dict[str, object]:
    if not isinstance(call, Mapping) or call.get("jsonrpc") != "2.0":
        return _rpc_error(None, -32600, "Invalid Request", "")
    number, method, params = call.get("id"), call.get("method"), call.get("params")
    if method not in ("cli", "cli_ascii"):
        return _rpc_error(number, -32601, "Method not found", "")
    if not isinstance(params, Mapping) or not isinstance(params.get("cmd"), str) or "version" not in params:
        return _rpc_error(number, -32602, "Invalid params", "")
    reply = _run(session, params["cmd"])
    if reply.failed:
        return _rpc_error(number, -32602, "Invalid params", reply.text)
    if method == "cli" and reply.text and _is_show(params["cmd"]) and reply.data is None:
        return _rpc_error(number, -32602, "Invalid params", "Structured output unsupported\n")
    result: object = {"msg": reply.text} if method == "cli_ascii" else {"body": reply.data}
    return {"jsonrpc": "2.0", "result": result if reply.text or reply.data else None, "id": number}


def _rpc_error(number: object, code: int, message: str, detail: str) -> dict[str, object]:
    error: dict[str, object] = {"code": code, "message": message}
    if detail:
        error["data"] = {"msg": detail}
    return {"jsonrpc": "2.0", "error": error, "id": number}


def _is_show(command: str) -> bool:
    return command.lstrip().lower().startswith("sh")


def _run(session: Session, command: str) -> Reply:
    """Run a command; configuration commands need no `configure terminal` here."""
    if not command.strip():
        return Reply("% Invalid command\n", failed=True)
    reply = session.execute(command.strip())
    if reply.failed and not session.context.modes and not _is_show(command):
        session.execute("configure terminal")
        second = session.execute(command.strip())
        if not second.failed:
            return second
        session.context.modes.clear()
    return reply


def answer_ins_api(session: Session, request: Mapping[str, object]) -> Answer:
    kind, text = request.get("type"), request.get("input")
    if kind not in ("cli_show", "cli_show_ascii", "cli_conf") or not isinstance(text, str):
        output: dict[str, object] = {"code": "400", "msg": "Request message is invalid", "input": str(text)}
        return HTTPStatus.BAD_REQUEST, _envelope(kind, output)
    if request.get("output_format") not in (None, "json"):
        return HTTPStatus.BAD_REQUEST, _envelope(
            kind, {"code": "400", "msg": "Output format not supported", "input": text}
        )
    outputs: list[dict[str, object]] = []
    for command in session.commands(text)[:MAX_COMMANDS]:
        outputs.append(_ins_output(session, str(kind), command))
        if outputs[-1]["code"] != "200":
            break
    failed = not outputs or outputs[-1]["code"] != "200"
    if not outputs:
        outputs = [{"code": "400", "msg": "Input CLI command error", "clierror": "% Invalid command\n", "input": text}]
    status = HTTPStatus.BAD_REQUEST if failed else HTTPStatus.OK
    return status, _envelope(kind, outputs[0] if len(outputs) == 1 else outputs)


def _ins_output(session: Session, kind: str, command: str) -> dict[str, object]:
    if kind == "cli_conf":
        reply = _run(session, command)
    elif _is_show(command):
        reply = session.execute(command)
    else:
        return {"code": "400", "msg": "Input CLI command error", "clierror": "% Invalid command\n", "input": command}
    if reply.failed:
        message = "CLI execution error" if kind == "cli_conf" else "Input CLI command error"
        return {"code": "400", "msg": message, "clierror": reply.text, "input": command}
    if kind == "cli_show" and reply.data is None:
        return {"code": "501", "msg": "Structured output unsupported", "input": command}
    body: object = reply.data if kind == "cli_show" else reply.text
    return {"input": command, "msg": "Success", "code": "200", "body": body or {}}


def _envelope(kind: object, output: object) -> dict[str, object]:
    return {"ins_api": {"type": str(kind), "version": "1.0", "sid": "eoc", "outputs": {"output": output}}}
