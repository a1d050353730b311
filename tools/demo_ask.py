#!/usr/bin/env python3
"""Asks a running server the same question twice and shows what the prefix cache did. Usage: demo_ask.py URL"""
import json
import sys
import time
import urllib.request

SYSTEM = "You are a patient teacher. " + "Explain things in short, friendly sentences with one example. " * 20
QUESTION = "Why is the sky blue?"


def ask(url):
    body = {
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}],
        "max_tokens": 40,
        "temperature": 0,
    }
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    return answer, 1000 * (time.perf_counter() - start)


def main():
    url = sys.argv[1]
    print(f"\nQuestion: {QUESTION}")
    texts = []
    for name in ("first", "second"):
        answer, total_ms = ask(url)
        usage = answer["usage"]
        texts.append(answer["choices"][0]["message"]["content"])
        print(f"\n{name} answer: {texts[-1].strip()}")
        print(f"  {usage['prompt_tokens']} prompt tokens, "
              f"{usage['prompt_tokens_details']['cached_tokens']} of them cached; "
              f"prompt {answer['timings']['prompt_ms']:.1f} ms, total {total_ms:.0f} ms")
    print("\nBoth answers are the same." if texts[0] == texts[1] else "\nThe answers differ!")
    return 0 if texts[0] == texts[1] else 1


if __name__ == "__main__":
    sys.exit(main())
