"""The whole contract between kais and an image, with only Python's standard library.

The input is environment variables and files. The output is the exit code and the termination
message. The knowledge service speaks HTTP; its token is read again for each request.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

TIMEOUT_S = 10
RESULT = Path(os.environ.get("RESULT_FILE", "/dev/termination-log"))


def given() -> list[str]:
    """Return the facts that were recalled for this attempt: data, not instructions."""
    file = os.environ.get("KAIS_KNOWLEDGE_FILE")
    document = json.loads(Path(file).read_text()) if file else {}
    return [fact["content"] for fact in document.get("facts", [])]


def remember(content: str) -> str:
    """Store one fact for the next run, and say what became of it."""
    token = Path(os.environ["KNOWLEDGE_TOKEN_FILE"]).read_text().strip()
    body = {"content": content, "kind": "fact", "run": os.environ.get("KAIS_RUN_ID")}
    request = urllib.request.Request(
        os.environ["KNOWLEDGE_SERVICE_URL"].rstrip("/") + "/v1/facts",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return str(json.load(answer)["status"])
    except urllib.error.HTTPError as refusal:
        return f"refused: {refusal.read().decode()}"
    except OSError as failure:
        return f"not stored: {failure}"


def main() -> int:
    """Count the words of the objective, and remember how many there were."""
    objective = os.environ["KAIS_OBJECTIVE"]
    count = len(objective.split())
    result = {
        "words": count,
        "attempt": int(os.environ["KAIS_ATTEMPT"]),
        "given": given(),
        "remembered": remember(f'the objective "{objective[:200]}" has {count} words'),
    }
    RESULT.write_text(json.dumps(result)[:4096])
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
