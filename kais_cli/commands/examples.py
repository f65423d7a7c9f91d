"""The examples that end each help page, by command; a test parses every one of them."""

from __future__ import annotations

from typing import Any

from kais_cli.completion import command_line

FACT = "01a20271-baae-74f2-a8ca-83ecb715fd90"
OTHER_FACT = "01a20271-c1d0-7b3e-9a55-0d2f4c6b8e11"
RECEIPT = "01a20272-0c4e-7d1f-9a53-2f6be0a7d911"

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "": ("blueprint list", "instance list -A", "help mission logs"),
    "blueprint": ("list -A", "use namespace-doctor --set maxPods=20", "stats namespace-doctor"),
    "blueprint list": ("", "-A -l team=web", "-o name"),
    "blueprint show": ("namespace-doctor", "namespace-doctor -n demo -o yaml"),
    "blueprint render": (
        "namespace-doctor --set maxPods=20",
        "code-review-team --values change.yaml --revision 2",
        "namespace-doctor -f blueprint.yaml --set maxPods=20 --name test",
    ),
    "blueprint use": (
        "namespace-doctor --set maxPods=20",
        "code-review-team --values change.yaml --name nightly --no-wait",
        "log-explainer --set-file log=app.log --dry-run",
    ),
    "blueprint validate": ("-f blueprint.yaml", "-R -f blueprints/ -f more.yaml", "-f -"),
    "blueprint history": ("namespace-doctor", "namespace-doctor --revision 2"),
    "blueprint diff": ("namespace-doctor --from 1 --to 2", "namespace-doctor -f blueprint.yaml"),
    "blueprint stats": ("namespace-doctor", "namespace-doctor -o json"),
    "blueprint promote": ("namespace-doctor",),
    "blueprint stop": ("namespace-doctor",),
    "blueprint rollback": ("namespace-doctor", "namespace-doctor --to 3 --dry-run"),
    "instance": ("list", "show nightly", "wait nightly --timeout 10m"),
    "instance list": ("", "-A", "-l kais.io/blueprint=namespace-doctor -w"),
    "instance show": ("nightly", "nightly -o yaml"),
    "instance wait": (
        "nightly",
        "nightly --timeout 10m -o json",
        "nightly --for condition=Ready",
    ),
    "instance logs": ("nightly", "nightly --attempt 1 --tail 50", "nightly -f"),
    "instance delete": ("nightly", "nightly weekly", "blueprintinstance/nightly -n demo"),
    "approvals": ("list -A", "approve 5f0d2b3c", "reject 5f0d2b3c --reason 'not this file'"),
    "approvals list": ("", "-A", "-o json"),
    "approvals approve": ("5f0d2b3c", "5f0d2b3c --reason 'as agreed'"),
    "approvals reject": ("5f0d2b3c --reason 'not this file'",),
    "formation": ("list", "show review-team", "topology review-team"),
    "formation list": ("", "-A", "-o name"),
    "formation show": ("review-team", "review-team -o yaml"),
    "formation topology": ("review-team", "review-team -o json"),
    "formation scale": (
        "review-team --cell reviewer --replicas 3",
        "review-team --cell reviewer --replicas 3 --dry-run",
    ),
    "cell": ("list", "show review-team-lead-0", "logs review-team-lead-0"),
    "cell list": ("", "-l kais.io/formation=review-team", "-A -w"),
    "cell show": ("review-team-lead-0", "review-team-lead-0 -o yaml"),
    "cell approve": ("helper-x2k4f", "helper-x2k4f --dry-run"),
    "cell logs": ("review-team-lead-0", "review-team-lead-0 -c cell --since 5m -f"),
    "mission": ("list", "show nightly", "logs nightly"),
    "mission list": ("", "-A", "-l kais.io/blueprint=namespace-doctor -w"),
    "mission show": ("nightly", "nightly -o yaml"),
    "mission watch": ("nightly", "nightly --timeout 2h"),
    "mission wait": (
        "nightly --timeout 10m",
        "nightly --for condition=Started",
        "nightly --run -1 -o json",
    ),
    "mission retry": ("nightly", "nightly --no-wait"),
    "mission abort": ("nightly", "nightly --reason 'wrong parameters'"),
    "mission approve": ("nightly", "nightly --feedback 'Well done.'"),
    "mission reject": ("nightly --feedback 'Name the tides.'",),
    "mission logs": ("nightly", "nightly --attempt 1 --tail 50", "nightly --run -1"),
    "mission extract": ("nightly --replay --model small", "nightly --replay --model small -o json"),
    "knowledge": ("recall 'why do pods fail'", "list --scope namespace-doctor", "stats"),
    "knowledge recall": (
        "'why do pods fail' --scope namespace-doctor",
        "'who tends the harbour' --explain",
        "'which image was used' --known-at yesterday -o json",
    ),
    "knowledge add": (
        "'The harbour opens at six.' --scope namespace-doctor",
        "'It opens at five.' --subject harbour --predicate opens --valid-from yesterday",
        "- --kind pitfall --tag tides",
    ),
    "knowledge list": (
        "--scope namespace-doctor --below",
        "--tag tides --contains ferry",
        "--all -o json",
    ),
    "knowledge show": (FACT, "alias:ko:KO-shop-001 -o yaml"),
    "knowledge why": (FACT,),
    "knowledge impact": (FACT, f"{FACT} --limit 1000"),
    "knowledge correct": (
        f"{FACT} --reason 'It moved.'",
        f"{FACT} --reason 'It moved.' --replacement 'The harbour opens at five.'",
    ),
    "knowledge revise": (
        f"{FACT} --reason 'more exact' --confidence 0.9",
        f"{FACT} --reason 'more exact' --content 'It opens at 5:30.' --tag tides",
    ),
    "knowledge perform": ("-f acts.yaml", "-f - --reason 'new crane' -o name"),
    "knowledge confirm": (FACT, f"{FACT} --reason 'seen today'"),
    "knowledge retract": (f"{FACT} --reason 'never true'",),
    "knowledge promote": (f"{FACT} --reason 'holds for every team'",),
    "knowledge undo": (f"{FACT} --reason 'wrong fact'",),
    "knowledge reviews": ("", "--all -o name"),
    "knowledge approve": (
        f"{FACT} --reason 'checked'",
        f"{FACT} --reason 'checked' --content 'It opens at five.'",
    ),
    "knowledge reject": (f"{FACT} --reason 'not true'",),
    "knowledge restore": (f"{FACT} --reason 'rejected by mistake'",),
    "knowledge erase": (f"{FACT} --reason 'personal data' --yes",),
    "knowledge stats": ("", "--scope namespace-doctor -o json"),
    "knowledge aliases": ("ko", "file --prefix global:pitfall: --all"),
    "knowledge alias": (f"add {FACT} alias:ko:KO-shop-002 --reason 'its number'",),
    "knowledge alias add": (f"{FACT} alias:ko:KO-shop-002 --reason 'its number'",),
    "knowledge alias move": (f"{FACT} alias:ko:KO-shop-002 --reason 'this one is newer'",),
    "knowledge alias free": (f"{FACT} alias:ko:KO-shop-002 --reason 'wrong number'",),
    "knowledge link": (f"{FACT} mentions {OTHER_FACT}", f"{FACT} mentions alias:entity:ferry"),
    "knowledge unlink": (f"{FACT} mentions {OTHER_FACT}",),
    "knowledge links": (FACT, f"{FACT} --type mentions --all -o json"),
    "knowledge report-usage": (
        f"{FACT} --kind consulted",
        f"{FACT} --kind prevented --session issue-12",
    ),
    "knowledge events": ("", "--topic fact.recorded --after start --limit 10 -o json"),
    "knowledge export": ("--to facts.jsonl", "--to - --scope namespace-doctor"),
    "knowledge import": ("--from facts.jsonl", "--from - --scope namespace-doctor --keep-going"),
    "knowledge adopt": (
        "--scope namespace-doctor --dry-run",
        "--scope namespace-doctor --yes",
    ),
    "knowledge graph": ("list", "search tides", "open harbour"),
    "knowledge graph list": ("", "--all -o json"),
    "knowledge graph search": ("tides", "tides --limit 5 -o name"),
    "knowledge graph open": ("harbour", "harbour ferry -o yaml"),
    "knowledge graph create": (
        "harbour --type place",
        "ferry --type ship --observation 'It leaves at noon.'",
    ),
    "knowledge graph observe": ("ferry 'It leaves at noon.' 'It is blue.'",),
    "knowledge graph relate": ("ferry serves harbour", "ferry serves harbour --strength 0.8"),
    "knowledge graph delete": ("ferry", "ferry harbour"),
    "knowledge graph forget": ("ferry 'It is blue.'",),
    "knowledge graph unrelate": ("ferry serves harbour",),
    "knowledge graph import": ("--from memory.jsonl",),
    "knowledge graph export": ("--to memory.jsonl", "--to -"),
    "knowledge graph mirror": ("--to memory.jsonl",),
    "knowledge graph restore": ("--memory-path memory.jsonl",),
    "knowledge charts": ("list", "create 'Ship it' --reality 'Nothing is out.' --due 2026-12-01"),
    "knowledge charts create": (
        "'Ship it' --reality 'Nothing is out.' --due 2026-12-01 --step 'Write the notes'",
    ),
    "knowledge charts list": ("", "--completed -o json"),
    "knowledge charts due": ("", "--within 14"),
    "knowledge charts show": ("chart_1", "chart_1 -o yaml"),
    "knowledge charts update": ("chart_1 --due 2026-12-31", "chart_1 --reality 'A draft exists.'"),
    "knowledge charts add": (
        "chart_1 'Write the notes'",
        "chart_1 'Tag it' --due 2026-11-01",
        "chart_1 'Find a reviewer' --reality 'I know none.'",
    ),
    "knowledge charts remove": ("chart_1 chart_1_action_2",),
    "knowledge charts progress": ("chart_1_action_1 'Half of the notes are written.'",),
    "knowledge charts complete": ("chart_1_action_1",),
    "knowledge charts telescope": (
        "chart_1_action_1 --reality 'There are no notes.' --step 'Read the log'",
    ),
    "knowledge charts archive": ("--to completed.jsonl",),
    "receipt": (f"show {RECEIPT}", f"replay {RECEIPT}", f"diff {RECEIPT}"),
    "receipt show": (RECEIPT, f"{RECEIPT} -o json"),
    "receipt replay": (RECEIPT,),
    "receipt diff": (RECEIPT, f"{RECEIPT} -o json"),
    "cluster": ("up", "env", "down"),
    "cluster up": ("", "--no-node"),
    "cluster down": ("",),
    "cluster status": ("",),
    "cluster env": ("",),
    "cluster load": ("localhost/my-agent:1.0", "my-agent.tar"),
    "mcp": ("-n demo", "-n demo --tools knowledge,graph --memory-path memory.jsonl"),
    "version": ("", "--client -o json"),
    "doctor": ("", "-A", "-n demo -o json"),
    "uninstall": ("", "--crds"),
    "help": ("", "mission logs"),
    "completion": ("bash", "zsh"),
}


def commands() -> tuple[str, ...]:
    """Return the commands and groups that have examples, without `kais`; the root is empty."""
    return tuple(_ARGUMENTS)


def of_command(command: str) -> tuple[str, ...]:
    """Return the examples of a command such as `mission list`, as a person types them."""
    return tuple(
        " ".join(part for part in ("kais", command, arguments) if part)
        for arguments in _ARGUMENTS[command]
    )


def write(command_path: str, formatter: Any) -> None:
    """Write the section with the examples of a command, such as `kais mission list`."""
    _, *names = command_path.split()
    names[:1] = [command_line.ALIASES.get(name, name) for name in names[:1]]
    with formatter.section("Examples"):
        for example in of_command(" ".join(names)):
            formatter.write(f"  {example}\n")
