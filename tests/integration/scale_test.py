# SPDX-License-Identifier: Apache-2.0
"""More ranks than horovodrun can start."""


def test_twelve_hundred_ranks(hvdray):
    result = hvdray.go("-np", "1200", "--", "sh", "-c", "echo $HOROVOD_RANK", timeout=240)
    assert result.code == 0, result.errors[-2000:]
    ranks = sorted(int(line.rsplit(":", 1)[1]) for line in result.text.splitlines())
    assert ranks == list(range(1200))


def test_a_failure_among_many_stops_all(hvdray):
    result = hvdray.go("-np", "300", "--", "sh", "-c",
                       "[ $HOROVOD_RANK = 211 ] && exit 21; exec sleep 60", timeout=120)
    assert result.code == 21
