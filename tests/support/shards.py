"""Commands run in shards."""


def run_shards(ninja, shards, *arguments, order=None):
    for number in order or range(1, shards + 1):
        code, _, errors = ninja(*arguments, "--shard", f"{number}/{shards}")
        assert code == 0, errors
    return errors
