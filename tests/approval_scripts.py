"""Scripts of models that write files, which a person has to approve."""

WRITES = """
rules:
  - name: writes
    when: {turn: 1}
    reply:
      tool_calls: [{name: write_file, arguments: {path: shared/fix.md, content: "Restart it."}}]
  - name: answers
    when: {turn: 2}
    reply: {text: Done.}
"""
WRITES_TWICE = """
rules:
  - name: writes
    when: {turn: 1}
    reply:
      tool_calls:
        - {name: write_file, arguments: {path: shared/fix.md, content: "Restart it."}}
        - {name: write_file, arguments: {path: shared/drop.md, content: "Delete it."}}
  - name: answers
    when: {turn: 2}
    reply: {text: Done.}
"""
WRITES_AGAIN = """
rules:
  - name: writes
    when: {turn: 1}
    reply:
      tool_calls: [{name: write_file, arguments: {path: shared/fix.md, content: "Restart it."}}]
  - name: writes the same
    when: {turn: 2}
    reply:
      tool_calls: [{name: write_file, arguments: {path: shared/fix.md, content: "Restart it."}}]
  - name: writes something else
    when: {turn: 3}
    reply:
      tool_calls: [{name: write_file, arguments: {path: shared/fix.md, content: "Delete it."}}]
  - name: answers
    when: {turn: 4}
    reply: {text: Done.}
"""
