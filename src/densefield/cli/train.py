"""`densefield train`: trains a network, then network and CRF together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from densefield.cli.messages import FLAGS, ending_on_errors, print_result


def train_verb(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="Settings, a TOML file such as those in configs/.")],
    run: Annotated[Path, typer.Option(help="Folder of the run: checkpoints, logs and settings.")],
    stage: Annotated[
        int | None,
        typer.Option(min=1, max=2, help="1: network alone; 2: network and CRF. Same as --set training.stage=."),
    ] = None,
    start: Annotated[
        Path | None,
        typer.Option("--from", help="Run or checkpoint with the initial weights: for stage 2, the run of stage 1."),
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
    device: Annotated[
        str,
        typer.Option(help="Device of training: auto, cpu, cuda, cuda:1 or mps; auto is a CUDA GPU if there is one."),
    ] = "auto",
) -> None:
    """Train a network alone (stage 1), or a network and a CRF together (stage 2).

    Under torchrun the same command trains on several processes or computers. Exit status: 0 when done, 1 if the loss
    diverged or another process does not answer, 2 if nothing could be started or written, 143 after SIGTERM, which
    writes a checkpoint for --resume.
    """
    overrides = list(settings or [])
    if stage is not None:
        overrides.append(f"training.stage={stage}")
    if start is not None:
        overrides.append(f"training.start_from={json.dumps(str(start.resolve()))}")
    with ending_on_errors(FLAGS, needs="training"):
        from densefield.runs.devices import check_device_name
        from densefield.runs.run_folder import check_run
        from densefield.runs.settings import read_config

        check_device_name(device)
        resolved = read_config(config, overrides)
        check_run(resolved, run, resume)
        from densefield.runs.distributed import exit_together, rank_and_world_size
        from densefield.training.entry import train_config

        best = train_config(resolved, run, resume=resume, device=device)
    if rank_and_world_size()[0] == 0:
        print_result(f"{run}: best validation IoU {100 * best.iou:.2f}, NLL {best.nll:.4f}")
    exit_together()
