"""What plain post-training quantization costs: minimum and maximum as ranges, weights to the nearest step, no repair.

    python tools/bench/plain.py --model efficientnet_lite0 --weights CHECKPOINT --data DIR

The same stages as a build, with the recipe `PLAIN`; every payload is run by its engine on the photos to report on. Prints the
drop of top-1 against the float network with its paired 95 % interval: what a guarded build of the same network is held against.
"""

import argparse
from pathlib import Path

from edgekit import catalog
from edgekit.build.chains import chains_of
from edgekit.build.compression import Compression
from edgekit.build.recipe import PLAIN
from edgekit.build.request import BuildRequest
from edgekit.build.stages import AnswerBundle, AnswerFloat
from edgekit.build.stages.answer import read_answers
from edgekit.build.store import Store, default_root
from edgekit.build.verdicts import promises
from edgekit.build.walker import Walker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--weights", type=Path, required=True, help="a checkpoint of edgekit fit")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--store", type=Path)
    arguments = parser.parse_args()
    request = BuildRequest(
        model=catalog.find_model(arguments.model),
        target=catalog.find_target("host"),
        out=Path("unused"),
        data_dir=arguments.data,
        weights=arguments.weights,
        compression=Compression(sensitivity=True, device="cpu"),
    )
    chains = chains_of(request)
    splits = chains.splits
    if splits is None:
        raise SystemExit("the data has no labels")
    walk = Walker(Store(arguments.store or default_root()), lambda event: None).telling(lambda event: None)
    program = chains.export(chains.prepare(walk).checkpoint, walk)
    made = chains.bundle(program, walk, recipe=PLAIN)
    reference = read_answers(walk("float", (AnswerFloat(splits, "report"),), program).path)
    answers = read_answers(walk("plain", (AnswerBundle(splits, "report", chains.facts),), made.bundle).path)
    for name, found in promises(reference, answers).items():
        low, high = found.interval_pp
        print(
            f"{name}: top-1 {100 * found.metric:.1f} % against {100 * found.metric_float:.1f} % float, "
            f"drop {found.drop_pp:.2f} points ({low:.2f} to {high:.2f}, 95 %), {found.n} photos"
        )


if __name__ == "__main__":
    main()
