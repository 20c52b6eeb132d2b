"""``ninja train``."""

from __future__ import annotations

from typing import Any

import click

from ninja.cli.console import Bar, Console
from ninja.cli.options import from_fields
from ninja.cli.train_ngram import ngram
from ninja.lm.train.recipe import Progress, TrainOptions

HELP = {
    "architecture": "Kind of network.",
    "vocabulary": "Most words, <s>, </s> and <unk> included.",
    "min_count": "Rarer words become <unk>.",
    "embedding": "Width of embeddings and of each layer's output.",
    "hidden": "LSTM cells per layer, more than --embedding; or width of a Transformer's hidden layers.",
    "layers": "LSTM layers or Transformer blocks.",
    "heads": "Attention heads of each Transformer block; twice as many must divide --embedding.",
    "dropout": "Share of activations left out in training.",
    "epochs": "Passes over the text; the learning rate falls to 0 at their end.",
    "max_minutes": "End after this time, if it comes first.",
    "batch_tokens": "Tokens per step, padding included.",
    "learning_rate": "Highest, after the warm-up.",
    "warmup": "Steps in which the learning rate rises.",
    "clip": "Largest norm of the gradient.",
    "samples": "Words that stand for the vocabulary in the softmax; 0 is all of them.",
    "self_normalize": "Weight of the squared log-normaliser; 0.1 makes scores need no softmax.",
    "check_steps": "Steps between two measurements on the held-out text.",
    "patience": "Stop after this many measurements without a better perplexity.",
    "seed": "Of everything random.",
    "resume": "Go on from FILE.state, which an interrupted training leaves.",
    "device": "Where torch computes: cpu, cuda, cuda:1, …",
    "threads": "Threads of torch.  [default: its own choice]",
}


class WithCommands(click.Group):
    """A command that has others under it: the first argument names one of them, or it is the command's own."""

    allow_interspersed_args = True
    allow_extra_args = False

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Take the arguments as those of the command that the first one names, if it names any."""
        if args and args[0] in self.commands:
            return self.commands[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as a plain command does."""
        return click.Command.parse_args(self, ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run as a plain command does."""
        return click.Command.invoke(self, ctx)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Show how the command itself is used."""
        return click.Command.collect_usage_pieces(self, ctx)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's parameters; the commands under it have none of them before their names."""
        return super().get_params(ctx) if ctx.command is self else []


@click.group(cls=WithCommands, no_args_is_help=False)
@click.argument("text")
@click.option("--dev", required=True, metavar="FILE", help="Held-out text, for which weights are chosen.")
@click.option("-o", "--output-file", required=True, metavar="FILE", help="Checkpoint to write.")
@from_fields(TrainOptions, HELP)
def train(text: str, dev: str, output_file: str, **chosen: Any) -> None:
    """Train a language model on a text.

    A neural one, unless TEXT is the word ngram: that trains an n-gram model, see `ninja train ngram --help`.

    TEXT and the held-out text hold one sentence a line, words between white space; .gz is unpacked. The checkpoint is
    written whenever the held-out perplexity falls.

    \b
    Examples:
      ninja train train.txt.gz --dev dev.txt -o model.pt
      ninja train ngram train.txt.gz --dev dev.txt -o model.arpa.gz
    """
    options = TrainOptions(**chosen)
    from ninja.lm.train.loop import train as train_model

    console = Console()
    with console.progress("steps") as bar:
        result = train_model(text, dev, output_file, options, lambda progress: _show(console, bar, progress))
    console.say(
        f"{result.output}: perplexity {result.perplexity:.2f} on the held-out text "
        f"({result.unknown:.2%} unknown words), step {result.step}, {result.minutes:.1f} min"
    )


def _show(console: Console, bar: Bar | None, progress: Progress) -> None:
    """Show how far the training is: a line that changes, and one that stays for each measurement."""
    facts = f"epoch {progress.epoch:.2f}, loss {progress.loss:.3f}, {progress.words_per_second:.0f} words/s"
    if bar is not None:
        bar.step(f"of {progress.num_steps}, {facts}", progress.step)
    if progress.perplexity is not None:
        facts = f"step {progress.step}/{progress.num_steps}, {facts}, {progress.minutes:.1f} min"
        console.say(f"{facts}, perplexity {progress.perplexity:.2f}{', kept' if progress.best else ''}")


train.add_command(ngram)
