#!/usr/bin/env python3
"""Records what Jinja2 makes of chat templates, or compares `rlx template` with it on templates of a folder.

    python3 -m venv venv && venv/bin/pip install jinja2
    venv/bin/python tools/chat_templates.py                       # writes tests/fixtures/chat_templates/expected.json
    venv/bin/python tools/chat_templates.py --rlx target/debug/rlx FOLDER …

Jinja2 is set up as transformers sets it up for `apply_chat_template`: a sandbox, blocks that take the white space
before them and the line break behind them, `break` and `continue`, the tag `generation`, and `tojson` as Python's
`json.dumps`. Each `*.jinja` meets each conversation of tests/fixtures/chat_templates/conversations.json. Where the
template raises, or Jinja2 fails, the record has only that; RLX must fail too.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/chat_templates"
NOW = 1_792_000_000  # 14 October 2026, 17:46:40 UTC
BOS, EOS = "<s>", "</s>"


class Generation(Extension):
    """The tag that marks an assistant's text. It changes nothing of a prompt."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise TemplateError(message)

    def strftime_now(text):
        return datetime.datetime.fromtimestamp(NOW, datetime.UTC).strftime(text)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def rendered(env, source, case, tools):
    """The prompt; None where there is none."""
    try:
        return env.from_string(source).render(
            messages=case["messages"], tools=tools if case.get("tools") else None, documents=None, bos_token=BOS,
            eos_token=EOS, add_generation_prompt=case.get("generate", True), **case.get("set", {}))
    except Exception:  # what a template does wrong is any error of Python's
        return None


def asked(rlx, path, case, folder):
    """What `rlx template` prints; None where it fails."""
    messages = folder / "messages.json"
    messages.write_text(json.dumps(case["messages"], ensure_ascii=False))
    command = [rlx, "template", "--template", path, "--bos", BOS, "--eos", EOS, "--messages", messages, "--now", str(NOW)]
    if case.get("tools"):
        command += ["--tools", FOLDER / "tools.json"]
    if not case.get("generate", True):
        command.append("--no-generation-prompt")
    for name, value in case.get("set", {}).items():
        command += ["--set", f"{name}={json.dumps(value)}"]
    run = subprocess.run(command, capture_output=True)
    return (run.stdout.decode(), "") if run.returncode == 0 else (None, run.stderr.decode())


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--rlx", help="the command to compare")
    args.add_argument("folders", nargs="*", type=pathlib.Path)
    args = args.parse_args()
    cases = json.loads((FOLDER / "conversations.json").read_text())
    tools = json.loads((FOLDER / "tools.json").read_text())
    env = environment()
    if not args.rlx:
        record = {path.name: [rendered(env, path.read_text(), case, tools) for case in cases]
                  for path in sorted(FOLDER.glob("*.jinja"))}
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (FOLDER / "expected.json").write_text(text)
        return 0
    n = differ = 0
    with tempfile.TemporaryDirectory() as work:
        for path in [path for folder in args.folders for path in sorted(folder.glob("*.jinja"))]:
            source = path.read_text()
            for case in cases:
                want = rendered(env, source, case, tools)
                got, error = asked(args.rlx, path, case, pathlib.Path(work))
                n += 1
                if got != want:
                    differ += 1
                    print(f"{path.name}, {case['name']}:\n  {want!r}\n  {got!r} {error}")
    print(f"{n} cases, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
