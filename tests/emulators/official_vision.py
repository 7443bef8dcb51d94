"""The official `openai` package, which asks about one picture. Runs in `build/envs/composio`, which has it.

`python official_vision.py URL KEY MODEL` reads a data URL from standard input, and prints the answer or the
error.
"""

import sys

import openai


def main() -> None:
    url, key, model = sys.argv[1:]
    client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
    content = [
        {"type": "image_url", "image_url": {"url": sys.stdin.read()}},
        {"type": "text", "text": "What is it?"},
    ]
    try:
        found = client.chat.completions.create(model=model, messages=[{"role": "user", "content": content}])
    except openai.APIStatusError as error:
        print(type(error).__name__, error.status_code)
        return
    print(found.choices[0].message.content, found.usage.total_tokens)


if __name__ == "__main__":
    main()
