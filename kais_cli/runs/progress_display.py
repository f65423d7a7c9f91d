"""Displays of a run's progress: lines for pipes, and an additional live line on terminals."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from kais_cli.views import output, quantities, text_layout

if TYPE_CHECKING:
    from datetime import timedelta

    from kais_cli.environment import Environment
    from kais_cli.runs.progress import RunState


class Display(Protocol):
    """Displays a followed run."""

    def __enter__(self) -> Self:
        """Start the display."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the display; written lines stay."""
        ...

    def line(self, text: str) -> None:
        """Write a permanent line."""
        ...

    def tick(self, state: RunState, elapsed: timedelta) -> None:
        """Show the current state of the run."""
        ...


class PlainDisplay:
    """Displays lines only."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing: each line was flushed."""

    def line(self, text: str) -> None:
        """Write a line and flush it, for readers of a pipe."""
        self._write(text_layout.escape_control_characters(text) + "\n")
        self._write("")

    def tick(self, state: RunState, elapsed: timedelta) -> None:
        """Do nothing: a pipe would keep every update."""


class LiveDisplay:
    """Displays lines, and below them a live line with the state of the run and the elapsed time."""

    def __init__(self, stream: TextIO, *, has_colour: bool) -> None:
        from rich.console import Console  # noqa: PLC0415 (a tenth of a second)
        from rich.live import Live  # noqa: PLC0415
        from rich.spinner import Spinner  # noqa: PLC0415

        self._console = Console(
            file=stream, force_terminal=True, no_color=not has_colour, highlight=False
        )
        self._spinner = Spinner("dots")
        self._live = Live(self._spinner, console=self._console, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def line(self, text: str) -> None:
        """Write a line above the live one."""
        self._console.print(
            text_layout.escape_control_characters(text), markup=False, soft_wrap=True
        )

    def tick(self, state: RunState, elapsed: timedelta) -> None:
        """Redraw the live line."""
        from rich.text import Text  # noqa: PLC0415

        attempt = f", attempt {state.attempt}" if state.attempt else ""
        self._spinner.update(
            text=Text(f"{state.phase}{attempt}, {quantities.format_duration(elapsed)}")
        )
        self._live.refresh()


def open_display(environment: Environment, *, form: output.Format) -> Display:
    """Return the display: on stdout for people, on stderr if stdout is for programs."""
    if form is not output.Format.TABLE:
        return PlainDisplay(environment.write_error)
    if environment.is_terminal:
        return LiveDisplay(environment.stdout, has_colour=environment.settings.has_colour)
    return PlainDisplay(environment.write)
