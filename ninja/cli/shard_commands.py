"""The commands ``ninja gather`` and ``ninja shard-script``, for runs in shards."""

from __future__ import annotations

import os
import shlex

import click

from ninja.cli.command import OutputFile, Sectioned
from ninja.cli.options import command
from ninja.cli.shards import CommandWork, report
from ninja.files.output import target
from ninja.pipeline.join import join_shards, remove_shards
from ninja.pipeline.plan import SUFFIX

SCRIPTS = {
    "slurm": """\
#!/bin/bash
# Submit this script with sbatch. When all tasks are complete, run: ninja gather {output}
#SBATCH --job-name=ninja
#SBATCH --array=1-{shards}
#SBATCH --output={logs}/%a.log
exec {command} --shard "$SLURM_ARRAY_TASK_ID/{shards}"
""",
    "sge": """\
#!/bin/bash
# Submit this script with qsub. When all tasks are complete, run: ninja gather {output}
#$ -N ninja
#$ -cwd -V -S /bin/bash
#$ -t 1-{shards}
#$ -j y -o {logs}/$TASK_ID.log
exec {command} --shard "$SGE_TASK_ID/{shards}"
""",
    "kubernetes": """\
# Set the image and add volumes, then submit this file with kubectl apply -f FILE. When the job is complete, run:
# ninja gather {output}
apiVersion: batch/v1
kind: Job
metadata:
  name: ninja
spec:
  completionMode: Indexed
  completions: {shards}
  parallelism: {shards}
  backoffLimitPerIndex: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: ninja
        image: NAME-OF-YOUR-IMAGE
        command: [bash, -c]
        args:
        - |
          exec {command} --shard "$((JOB_COMPLETION_INDEX + 1))/{shards}"
""",
}


@command
@click.argument("output", type=OutputFile(allow_folder=True))
@click.option("--remove-parts", is_flag=True, help="Remove the results of the shards once they are joined.")
def gather(output: str, remove_parts: bool) -> None:
    """Join the results of all shards of a run.

    OUTPUT is the argument of -o in the run, or the folder OUTPUT.shards. Results are joined only if all shards are
    complete and unmodified, and were computed with the same sources, options and models. The joined files have the
    names that were specified in the run. The exit code is 1 if a shard is missing or a lattice failed.

    \b
    Example:
      ninja gather rescored.ark.gz
    """
    joined = join_shards(output)
    if remove_parts:
        remove_shards(joined)
    report(joined)


@click.command(cls=Sectioned, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--slurm", type=click.IntRange(1), metavar="N", help="Slurm script with N array tasks (for sbatch).")
@click.option("--sge", type=click.IntRange(1), metavar="N", help="SGE script with N array tasks (for qsub).")
@click.option("--kubernetes", type=click.IntRange(1), metavar="N", help="Kubernetes job with N indices (for kubectl).")
@click.argument("arguments", nargs=-1, required=True, metavar="COMMAND...")
def shard_script(arguments: tuple[str, ...], **schedulers: int | None) -> None:
    """Print a job-array script that runs a ninja command in shards on Slurm, SGE or Kubernetes.

    COMMAND is a ninja command line without 'ninja'. Once all tasks are complete, `ninja gather` joins their results.

    \b
    Example:
      ninja shard-script --slurm 64 prune lat.ark -o pruned.ark > job.sh
    """
    options = [(kind, shards) for kind, shards in schedulers.items() if shards is not None]
    if len(options) != 1:
        raise click.UsageError("exactly one of --slurm, --sge and --kubernetes is required")
    ((kind, shards),) = options
    plan = CommandWork(arguments).plan(shards)
    logs = os.path.basename(plan.folder).removesuffix(SUFFIX) + ".logs"
    os.makedirs(logs, exist_ok=True)
    names = {"output": shlex.quote(target(plan.outputs[0].name).archive), "logs": shlex.quote(logs)}
    click.echo(SCRIPTS[kind].format(command=f"ninja {shlex.join(arguments)}", shards=shards, **names), nl=False)
