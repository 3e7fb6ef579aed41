"""`densefield train`: the network, then network and CRF together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from densefield.cli.failing import missing, stop, tell
from densefield.cli.sources import FLAGS

TERMINATED = 128 + 15  # the exit status after SIGTERM, by convention


def train_verb(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="The settings, a TOML file such as those in configs/.")
    ],
    run: Annotated[Path, typer.Option(help="The folder of the run: checkpoints, logs and settings.")],
    stage: Annotated[
        int | None,
        typer.Option(min=1, max=2, help="1: the network alone. 2: network and CRF. As --set training.stage=."),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option(
            "--from", help="The run, or checkpoint, whose weights it starts from: for stage 2, that of stage 1."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a setting, such as optimizer.lr_top=0.02 or crf.kernels.0.weight=2; repeatable.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the run's last checkpoint.")] = False,
) -> None:
    """Train a network alone (stage 1), or a network and a CRF together (stage 2).

    Under torchrun the same command trains on several processes or machines. Exit status: 0 when done, 1 when the loss
    diverged or another process does not answer, 2 if nothing could be started or written, 143 after SIGTERM, which
    writes a checkpoint for --resume.
    """
    from densefield.errors import DensefieldError

    chosen = list(settings or [])
    if stage is not None:
        chosen.append(f"training.stage={stage}")
    if start is not None:
        chosen.append(f"training.start_from={json.dumps(str(start.resolve()))}")
    try:
        from densefield.runs.run_folder import check_run
        from densefield.runs.settings import read_config

        resolved = read_config(config, chosen)
        check_run(resolved, run, resume)
        from densefield.runs.distributed import LostProcess, exit_at_once, exit_together, rank_and_world_size
        from densefield.runs.stopping import Terminated
        from densefield.training.loop import Diverged, train
    except ModuleNotFoundError as error:
        raise missing("training", error) from error
    except (DensefieldError, OSError) as error:
        raise stop(error, flags=FLAGS) from error
    try:
        best = train(resolved, run, resume=resume)
    except (DensefieldError, OSError, ModuleNotFoundError) as error:
        statuses: dict[type[Exception], int] = {Diverged: 1, LostProcess: 1, Terminated: TERMINATED}
        end = stop(error, statuses.get(type(error), 2), FLAGS)
        if isinstance(error, LostProcess):  # torch may wait for it while it frees connections
            exit_at_once(end.exit_code)
        raise end from error
    if rank_and_world_size()[0] == 0:
        tell(f"{run}: best IoU on validation {100 * best:.2f}")
    exit_together()
