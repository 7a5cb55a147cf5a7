#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws how a job started and ended, from the trace of a real run, as an SVG for pages that are light or dark.

    hvdray run -np 4 --trace trace.json -- python3 train.py
    tools/draw.py trace.json start.svg [--language zh]

Each phase gets the same width whatever it took, because a job runs a thousand times longer than it starts; the numbers say how long.
Of an elastic job it draws, to scale, what each slot did."""

import argparse
import json
import math
import os
import pathlib
import re
import sys
import xml.sax.saxutils

WIDTH, LEFT, ROW, TOP = 760, 140, 34, 58
RIGHT = WIDTH - 10
PHASES = ("resolve", "hello", "start", "run", "stop", "drain", "close_agents")
WORDS = {
    "en": {"title": "How a job starts and ends", "resolve": "who runs where", "hello": "agents start", "start": "workers start",
           "run": "the program runs", "end": "all is swept up", "launcher": "hvdray", "agent": "agent on {}", "rank": "rank {}",
           "others": "{} more", "desc": "{workers} workers on {hosts}. hvdray decides who runs where ({resolve}), the agents start ({hello}), "
           "the agents start the workers ({start}), the program runs ({run}), and all is swept up ({end}).",
           "elastic": "An elastic job over time", "generation": "generation", "size": "{}: {} workers", "slot": "{}, slot {}",
           "starting": "starts", "running": "trains", "waiting": "waits or ends", "failed": "is killed or fails",
           "began": "Generation {}: {} workers from {} on.", "fell": "After {}, {}: {}."},
    "zh": {"title": "作业怎样启动和结束", "resolve": "决定谁在哪里运行", "hello": "agent 启动", "start": "worker 启动",
           "run": "程序运行", "end": "清理干净", "launcher": "hvdray", "agent": "{} 上的 agent", "rank": "rank {}",
           "others": "另外 {} 个", "desc": "{hosts} 上的 {workers} 个 worker。hvdray 决定谁在哪里运行（{resolve}），agent 启动（{hello}），"
           "agent 启动 worker（{start}），程序运行（{run}），最后清理干净（{end}）。",
           "elastic": "一个弹性作业的经过", "generation": "代", "size": "{}：{} 个 worker", "slot": "{}，槽位 {}",
           "starting": "启动", "running": "训练", "waiting": "等待或结束", "failed": "被杀或失败",
           "began": "第 {} 代：{} 个 worker，从 {} 开始。", "fell": "{} 时，{}：{}。"},
}
STYLE = """
svg{background:#fff;font:13px sans-serif}text{fill:#1f2328}.dim{fill:#59636e}.line{stroke:#d1d9e0}
.launcher{fill:#54aeff}.agent{fill:#4ac26b}.starting{fill:#d4a72c}.running{fill:#8250df}
.waiting{fill:#afb8c1}.failed{stroke:#cf222e;stroke-width:3}
@media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#f0f6fc}.dim{fill:#9198a1}.line{stroke:#3d444d}
.launcher{fill:#1f6feb}.agent{fill:#238636}.starting{fill:#9e6a03}.running{fill:#8957e5}
.waiting{fill:#6e7681}.failed{stroke:#ff7b72}}
"""
MOST_WORKERS = 16  # rows for more would be too much to read
MOST_BYTES = 40 << 10
GENERATION = re.compile(r"generation (\d+), (\d+) workers?")
ENDED_WELL = "exited with code 0"
NO_TRACE = "expected a trace of a job that has run: hvdray run --trace FILE …"


class Trace:
    """The phases and processes of a job, in microseconds from its begin."""

    def __init__(self, events):
        self.phases, self.hosts, self.ready, self.workers = {}, {}, {}, []
        names, starting, running = {}, {}, {}
        for event in events:
            key = event["pid"], event["tid"]
            span = event.get("ts", 0), event.get("ts", 0) + event.get("dur", 0)
            if event["name"] == "process_name" and event["pid"] > 0:
                self.hosts[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                names[key] = event["args"]["name"]
            elif event["pid"] == 0 and event["ph"] == "X":
                self.phases[event["name"]] = span
            elif event["name"] == "ready":
                self.ready[event["pid"]] = span[0]
            elif event["name"] == "starting":
                starting[key] = span
            elif event["name"].startswith("running"):
                running[key] = span
        if any(phase not in self.phases for phase in PHASES[:4]) or not running:
            raise ValueError(NO_TRACE)
        for key in sorted(running):  # host by host, by rank
            self.workers.append((key[0], names[key].removeprefix("rank "), starting.get(key, running[key][:1] * 2), running[key]))
        self.end = max(end for _, end in self.phases.values())


class ElasticTrace:
    """The generations of an elastic job, and what each of its slots did, in microseconds from its begin."""

    def __init__(self, events):
        self.hosts, self.names, self.generations, self.slots, self.failures = {}, {}, [], {}, []
        for event in events:
            place = event["pid"], event["tid"]
            if event["name"] == "process_name":
                self.hosts[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                self.names[place] = event["args"]["name"]
            if event["ph"] != "X":
                continue
            begin, end = event["ts"], event["ts"] + event["dur"]
            if place[0] == 0:
                if found := GENERATION.fullmatch(event["name"]):
                    self.generations.append((found[1], found[2], begin, end))
            elif place[1] > 0:
                kind = kind_of(event["name"])
                self.slots.setdefault(place, []).append((kind, begin, end))
                how = event.get("args", {}).get("end", ENDED_WELL)
                if how != ENDED_WELL and kind != "waiting":
                    self.failures.append((end, place, how))
        self.end = max(end for *_, end in self.generations)
        self.failures.sort()

    def slot(self, place, words):
        return words["slot"].format(self.hosts[place[0]], self.names[place].removeprefix("slot "))


def kind_of(span):
    if span.startswith(("starting", "importing")):
        return "starting"
    return "running" if span.startswith("generation ") else "waiting"


class Scale:
    """Times to places: each phase has its share of the width."""

    SHARES = (("resolve", 0.18), ("hello", 0.19), ("start", 0.19), ("run", 0.25), ("end", 0.19))

    def __init__(self, trace):
        begins = [trace.phases[phase][0] for phase in PHASES[:4]] + [trace.phases["run"][1]]
        self.stops = [*begins, max(trace.end, begins[-1] + 1)]
        self.names = [name for name, _ in self.SHARES]
        self.places = [float(LEFT)]
        for _, share in self.SHARES:
            self.places.append(self.places[-1] + share * (WIDTH - LEFT - 10))

    def __call__(self, time):
        for index in range(len(self.stops) - 1):
            if time < self.stops[index + 1] or index == len(self.stops) - 2:
                share = (time - self.stops[index]) / max(self.stops[index + 1] - self.stops[index], 1)
                return self.places[index] + min(max(share, 0), 1) * (self.places[index + 1] - self.places[index])
        raise AssertionError("no phase")

    def took(self):
        return {name: duration(self.stops[index + 1] - self.stops[index]) for index, name in enumerate(self.names)}


def duration(microseconds):
    if microseconds < 1000:
        return f"{microseconds} µs"
    return f"{microseconds / 1000:.3g} ms" if microseconds < 1e6 else f"{microseconds / 1e6:.3g} s"


def escaped(text):
    return xml.sax.saxutils.escape(str(text))


class Picture:
    def __init__(self, words):
        self.words = words
        self.parts = []
        self.row = 0

    def bar(self, kind, first, last):
        y = TOP + self.row * ROW + 7
        self.parts.append(f'<rect class="{kind}" x="{first:.1f}" y="{y}" width="{max(last - first, 2):.1f}" height="20" rx="3"/>')

    def label(self, text):
        self.parts.append(f'<text x="{LEFT - 8}" y="{TOP + self.row * ROW + 21}" text-anchor="end">{escaped(text)}</text>')

    def text(self, x, y, text, more=' text-anchor="middle"'):
        self.parts.append(f'<text x="{x:.1f}" y="{y}"{more}>{escaped(text)}</text>')

    def cross(self, x):
        y = TOP + self.row * ROW + 9
        self.parts.append(f'<path class="failed" d="M{x - 8:.1f} {y}l16 16m0 -16l-16 16"/>')

    def header(self, scale, rows):
        took = scale.took()
        for index, name in enumerate(scale.names):
            middle = (scale.places[index] + scale.places[index + 1]) / 2
            self.parts.append(f'<text x="{middle:.1f}" y="20" text-anchor="middle">{escaped(self.words[name])}</text>'
                              f'<text class="dim" x="{middle:.1f}" y="40" text-anchor="middle">{took[name]}</text>')
            if index:
                x = scale.places[index]
                self.parts.append(f'<path class="line" d="M{x:.1f} 8V{TOP + rows * ROW}"/>')


def drawn(trace, language):
    words = WORDS[language]
    scale = Scale(trace)
    shown = trace.workers[:MOST_WORKERS]
    hosts = sorted({host for host, _, _, _ in shown})
    more = len(trace.workers) - len(shown)
    rows = 1 + len(hosts) + len(shown) + (more > 0)
    picture = Picture(words)
    picture.header(scale, rows)
    picture.label(words["launcher"])
    picture.bar("launcher", scale(0), scale(trace.end))
    for host in hosts:
        picture.row += 1
        picture.label(words["agent"].format(trace.hosts[host]))
        ready = scale(trace.ready.get(host, trace.phases["start"][0]))
        picture.bar("starting", scale(trace.phases["hello"][0]), ready)
        picture.bar("agent", ready, scale(trace.end))
        for _, rank, starting, running in (worker for worker in shown if worker[0] == host):
            picture.row += 1
            picture.label(words["rank"].format(rank))
            picture.bar("starting", scale(starting[0]), scale(running[0]))
            picture.bar("running", scale(running[0]), scale(running[1]))
    if more:
        picture.row += 1
        picture.label(words["others"].format(more))
    names = ", ".join(trace.hosts[host] for host in sorted(trace.hosts)[:4]) + (" …" if len(trace.hosts) > 4 else "")
    description = words["desc"].format(workers=len(trace.workers), hosts=names, **scale.took())
    return svg(picture, rows, language, words["title"], description)


def drawn_elastic(trace, language):
    words = WORDS[language]
    picture = Picture(words)
    shown = sorted(trace.slots)[:MOST_WORKERS]
    more = len(trace.slots) - len(shown)
    rows = 1 + len(shown) + (more > 0)

    def place(time):
        return LEFT + min(time / trace.end, 1) * (RIGHT - LEFT)

    for index, kind in enumerate(("starting", "running", "waiting", "failed")):
        x = LEFT + index * 150
        picture.parts.append(f'<rect class="{kind}" x="{x}" y="9" width="14" height="14" rx="3"/>' if kind != "failed" else
                             f'<path class="failed" d="M{x} 9l14 14m0 -14l-14 14"/>')
        picture.text(x + 20, 21, words[kind], "")
    least = trace.end / 8e6  # seconds between ticks
    step = next(step for step in (10.0**math.floor(math.log10(least)) * digit for digit in (1, 2, 5, 10)) if step >= least)
    for tick in range(int(trace.end / 1e6 / step) + 1):
        x = place(tick * step * 1e6)
        picture.parts.append(f'<path class="line" d="M{x:.1f} 50V{TOP + rows * ROW}"/>')
        picture.text(x, 44, f"{tick * step:g} s", ' class="dim" text-anchor="middle"')
    picture.label(words["generation"])
    for number, size, begin, end in trace.generations:
        picture.bar("launcher", place(begin), place(end))
        label = words["size"].format(number, size)
        wide = place(end) - place(begin)
        if wide >= 10:
            picture.text((place(begin) + place(end)) / 2, TOP + 21, label if wide > 8 * len(label) else number)
    for slot in shown:
        picture.row += 1
        picture.label(trace.slot(slot, words))
        for kind, begin, end in trace.slots[slot]:
            picture.bar(kind, place(begin), place(end))
        for time in (time for time, where, _ in trace.failures if where == slot):
            picture.cross(place(time))
    if more:
        picture.row += 1
        picture.label(words["others"].format(more))
    description = [words["began"].format(number, size, duration(begin)) for number, size, begin, _ in trace.generations]
    description += [words["fell"].format(duration(time), trace.slot(where, words), how) for time, where, how in trace.failures]
    return svg(picture, rows, language, words["elastic"], " ".join(description))


def svg(picture, rows, language, title, description):
    text = "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TOP + rows * ROW + 8}" role="img" aria-labelledby="title desc" '
        f'xml:lang="{language}">',
        f'<title id="title">{escaped(title)}</title>', f'<desc id="desc">{escaped(description)}</desc>',
        "<!-- made by tools/draw.py from the trace of a run -->", f"<style>{STYLE}</style>", *picture.parts, "</svg>", ""])
    if len(text.encode()) > MOST_BYTES:
        raise ValueError("too much for a picture: look at it in Perfetto")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="file of hvdray run --trace")
    parser.add_argument("picture", help="SVG to write")
    parser.add_argument("--language", choices=sorted(WORDS), default="en")
    options = parser.parse_args()
    if os.path.exists(options.picture) and os.path.realpath(options.trace) == os.path.realpath(options.picture):
        sys.exit(f"draw.py: {options.picture} is the trace: expected another file for the picture")
    try:
        events = json.loads(pathlib.Path(options.trace).read_text(encoding="utf-8"))
        is_elastic = any(GENERATION.fullmatch(event["name"]) for event in events)
        picture = drawn_elastic(ElasticTrace(events), options.language) if is_elastic else drawn(Trace(events), options.language)
        pathlib.Path(options.picture).write_text(picture, encoding="utf-8")
    except ValueError as error:
        sys.exit(f"draw.py: {options.trace}: {error}")
    except (KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        sys.exit(f"draw.py: {options.trace}: {NO_TRACE}")
    except OSError as error:
        sys.exit(f"draw.py: {error}")


if __name__ == "__main__":
    main()
