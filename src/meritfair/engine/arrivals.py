r"""Lotteries among many arms: who has arrived by some time, and then who arrives next, or who left last.

Choose a time. Whether arm i has arrived by then is a coin with chance :math:`1 - e^{-w_i t}`, 64 steps at a time. The
time is such that mostly somewhat fewer than K have arrived. Where arrivals are missing, the race continues. Since it
has no memory, each next arrival is in proportion to the weights of those who are left: an alias table proposes,
and who has arrived already is proposed in vain. Arms with :math:`w_i t > 2` are not in the table, because most of them
have arrived; those that have not are listed. Where there are too many arrivals, the race runs backwards until
enough are gone: in the logarithm of time, going back, an arm that has arrived leaves at rate
:math:`x / (e^x - 1) \le 1`, where x is its weight times the time.

References
----------
A. J. Walker, "An efficient method for generating discrete random variables with general distributions", ACM Trans.
Math. Softw. 3 (1977).
"""

from __future__ import annotations

import math

import numpy as np

from meritfair.core.arrays import ByteArray, FloatArray, IntArray, WordArray
from meritfair.engine.bits import ALL, NONE, ONE, Word
from meritfair.engine.compiling import inlined, part, stage
from meritfair.engine.lotteries import (
    ARMS,
    DRAWN,
    FIXED,
    LIMITS,
    PULLS,
    WEIGHTS,
    ZERO,
    Drawing,
    draw_one,
    pull_the_certain,
    take_weights,
)
from meritfair.engine.random import LANES, next_word, open_uniform, random_words, threshold, toss_words, uniform

_SPARE = 1.0  # standard deviations by which arrivals stay below K
_REPEATS = 0.7  # without a time, if fewer draws than this are expected to hit an arm twice
_HEAVY_FROM = 2.0  # weight times time; most of these have arrived
_MOST_ROUNDS = 12  # of proposals; what is missing after that is drawn by adding up weights
_MAX_PLANES = 32

# Further rows of `words`: limits of the alias table, random words, and sums of columns of bits in binary.
_CELL_LIMIT, _RANDOM, _PLANES = range(3, 6)
# Of `floats`: sizes of the cells.
_SIZES = 1
# Of `ints`: light arms, heavy arms, late arms, cells, arrivals.
_LIGHT, _HEAVY, _LATE, _SMALL, _LARGE, _ARRIVED = range(3, 9)
# Of `facts`.
_N_HEAVY, _CELL_BITS, _NEXT, _AGE = range(3, 7)
# What `numbers` holds: the time, the arrivals expected when it was chosen, the weight of all light arms.
_TIME, _ARRIVALS, _LIGHT_WEIGHT = range(3)


@stage
def draw_by_arrival(
    drawing: Drawing, source: WordArray, given: FloatArray, budget: int, words: int, bits_in_last: int, new: bool
) -> int:
    """Draw the pulls of that many words of steps by weights, which are `new` or those of the last call."""
    n_arms, weights, facts = len(given), drawing.floats[WEIGHTS], drawing.facts
    if new:
        repeats = take_weights(weights, facts, given, budget)
        if facts[DRAWN] > 0:
            _prepare(drawing, n_arms, repeats > _REPEATS)
    if facts[DRAWN] == 0:
        for word in range(words):
            pull_the_certain(drawing.words[PULLS], weights, word * n_arms, n_arms)
    else:
        _draw(drawing, source, n_arms, words, bits_in_last)
    return 0


@inlined
def _prepare(drawing: Drawing, n_arms: int, timed: bool) -> None:
    """Choose the time, set the coins of the arrivals, and fill the alias table with the light arms.

    The time stays while the weights hardly change: until it is far from what it was chosen for, or too many
    proposals would be in vain.
    """
    weights, limits, facts, numbers = drawing.floats[WEIGHTS], drawing.words[LIMITS], drawing.facts, drawing.numbers
    light_arms, heavy_arms = drawing.ints[_LIGHT], drawing.ints[_HEAVY]
    new_time = timed and numbers[_TIME] == 0.0
    if not timed:
        numbers[_TIME] = 0.0
    while True:
        if new_time:
            numbers[_TIME] = _find_time(weights, n_arms, facts[DRAWN], numbers[_TIME])
        time = numbers[_TIME]
        light = heavy = ZERO
        total = arrivals = accepted = 0.0
        for arm in range(n_arms):
            weight = weights[arm]
            chance = 1.0 - math.exp(-weight * time) if weight < np.inf else 1.0
            limits[arm] = threshold(chance)
            if weight == 0.0 or weight == np.inf:
                continue
            arrivals += chance
            if weight * time > _HEAVY_FROM:
                heavy_arms[heavy] = arm
                heavy += 1
            else:
                light_arms[light] = arm
                light += 1
                total += weight
                accepted += weight * (1.0 - chance)
        facts[_AGE] += 1
        if not timed or new_time:
            numbers[_ARRIVALS] = arrivals
            facts[_AGE] = 0
            break
        far_off = abs(arrivals - numbers[_ARRIVALS]) > 0.3 * math.sqrt(facts[DRAWN])
        new_time = far_off or (facts[_AGE] >= 16 and accepted < 0.6 * total)
        if not new_time:
            break
    facts[_N_HEAVY], facts[_NEXT], numbers[_LIGHT_WEIGHT] = heavy, LANES, total
    if light > 0:
        facts[_CELL_BITS] = _fill_table(drawing, light, total)


@part
def _crowd(weights: FloatArray, n_arms: int, time: float) -> tuple[float, float]:
    """Return how many have arrived by a time: expectation, and the same plus _SPARE standard deviations."""
    mean = variance = 0.0
    for arm in range(n_arms):
        if weights[arm] < np.inf:
            left = math.exp(-weights[arm] * time)
            mean += 1.0 - left
            variance += left * (1.0 - left)
    return mean, mean + _SPARE * math.sqrt(variance)


@part
def _find_time(weights: FloatArray, n_arms: int, drawn: int, guess: float) -> float:
    """Return about the latest time at which the arrivals are still mostly at most `drawn`.

    Any time is right; this one is quick. The search starts late, because the crowd plus its spread need not grow.
    """
    late = guess if guess > 0.0 else float(drawn)
    while _crowd(weights, n_arms, late)[0] < drawn - 0.5 and late < 1e300:
        late *= 2.0
    early = late
    while _crowd(weights, n_arms, early)[1] > drawn and early > 1e-300:
        late = early
        early *= 0.7
    for _ in range(3):
        middle = 0.5 * (early + late)
        if _crowd(weights, n_arms, middle)[1] > drawn:
            late = middle
        else:
            early = middle
    return early


@inlined
def _fill_table(drawing: Drawing, n_light: int, total: float) -> int:
    """Fill the alias table: 2^b cells of equal chance, each shared by at most two arms (Walker, Vose); return b."""
    weights, sizes, light = drawing.floats[WEIGHTS], drawing.floats[_SIZES], drawing.ints[_LIGHT]
    limit, arms = drawing.words[_CELL_LIMIT], drawing.cell_arms
    small, large = drawing.ints[_SMALL], drawing.ints[_LARGE]
    cell_bits = 1
    while (1 << cell_bits) < n_light:
        cell_bits += 1
    cells = 1 << cell_bits
    n_small = n_large = 0
    for cell in range(cells):
        arm = light[cell] if cell < n_light else light[0]
        size = weights[arm] * (cells / total) if cell < n_light else 0.0
        sizes[cell] = size
        arms[2 * cell] = arms[2 * cell + 1] = arm
        limit[cell] = ALL
        small[n_small] = large[n_large] = cell
        n_small += size < 1.0
        n_large += size >= 1.0
    while n_small > 0 and n_large > 0:
        n_small -= 1
        cell, donor = small[n_small], large[n_large - 1]
        limit[cell] = threshold(sizes[cell])
        arms[2 * cell + 1] = arms[2 * donor]
        sizes[donor] = (sizes[donor] + sizes[cell]) - 1.0
        if sizes[donor] < 1.0:
            n_large -= 1
            small[n_small] = donor
            n_small += 1
    return cell_bits


@inlined
def _draw(drawing: Drawing, source: WordArray, n_arms: int, words: int, bits_in_last: int) -> None:
    """Let arms arrive until a time, then mend each step where they are not exactly K."""
    pulls, weights, arrived = drawing.words[PULLS], drawing.floats[WEIGHTS], drawing.ints[_ARRIVED]
    limits, planes, random = drawing.words[LIMITS], drawing.words[_PLANES], drawing.words[_RANDOM]
    facts, fixed, wanted = drawing.facts, drawing.facts[FIXED], drawing.facts[FIXED] + drawing.facts[DRAWN]
    time, heavy, n_heavy = drawing.numbers[_TIME], drawing.ints[_HEAVY], drawing.facts[_N_HEAVY]
    requests, cell_limit, cell_arms = drawing.requests, drawing.words[_CELL_LIMIT], drawing.cell_arms
    for word in range(words):
        first = word * n_arms
        if time > 0.0:
            toss_words(source, limits, pulls, first, n_arms)
            _count_columns(pulls, first, n_arms, planes, arrived)
        else:
            pull_the_certain(pulls, weights, first, n_arms)
            for step in range(LANES):
                arrived[step] = fixed
        waits_for_heavy, asked = NONE, ZERO
        for k in range(n_heavy):
            waits_for_heavy |= ~pulls[first + heavy[k]]
        for step in range(LANES if word < words - 1 else bits_in_last):
            missing, bit = wanted - arrived[step], ONE << np.uint64(step)
            if missing < 0:
                _send_back(pulls, weights, n_arms, source, time, first, bit, arrived[step] - fixed, -missing)
            elif missing > 0 and waits_for_heavy & bit:
                for _ in range(_admit_late(drawing, source, n_arms, first, bit, missing)):
                    draw_one(pulls, weights, drawing.ints[ARMS], source, first, n_arms, bit)
            else:
                for start in range(asked, asked + missing, 8):  # eight at a time: what is too much is overwritten
                    for k in range(start, start + 8):
                        requests[k] = step
                asked += missing
        rounds = 0
        while asked > 0 and rounds < _MOST_ROUNDS:
            rounds += 1
            asked = _answer(pulls, first, requests, asked, source, random, facts, cell_limit, cell_arms)
        for k in range(asked):
            draw_one(pulls, weights, drawing.ints[ARMS], source, first, n_arms, ONE << np.uint64(requests[k]))


@part
def _answer(
    pulls: WordArray,
    first: int,
    requests: ByteArray,
    asked: int,
    source: WordArray,
    random: WordArray,
    facts: IntArray,
    cell_limit: WordArray,
    cell_arms: IntArray,
) -> int:
    """Propose one arm for each request, which is a step; keep those that got one in vain, and return how many."""
    at, left, done, cell_bits = facts[_NEXT], 0, 0, facts[_CELL_BITS]
    while done < asked:
        if at == LANES:
            random_words(source, random)
            at = 0
        shift, end = at - done, min(asked, done + LANES - at)
        for k in range(done, end):
            step = requests[k]
            lane = first + _look_up(random[shift + k], cell_bits, cell_limit, cell_arms)
            bit = ONE << np.uint64(step)
            before = pulls[lane]
            pulls[lane] = before | bit
            requests[left] = step
            left += before & bit != NONE
        at, done = end + shift, end
    facts[_NEXT] = at
    return left


@part
def _look_up(word: Word, cell_bits: int, cell_limit: WordArray, cell_arms: IntArray) -> int:
    """Return the arm that a random word stands for: its first bits choose a cell, the others one of its two arms."""
    up = np.uint64(cell_bits)
    cell = word >> (np.uint64(64) - up)
    return cell_arms[cell + cell + np.uint64(word << up >= cell_limit[cell])]


@part
def _list_late(pulls: WordArray, heavy: IntArray, n_heavy: int, late: IntArray, first: int, bit: Word) -> int:
    """List the heavy arms that have not arrived at a step; return how many."""
    n_late = 0
    for k in range(n_heavy):
        late[n_late] = heavy[k]
        n_late += pulls[first + heavy[k]] & bit == NONE
    return n_late


@part
def _largest(weights: FloatArray, late: IntArray, n_late: int) -> float:
    """Return the largest weight of the late arms."""
    largest = 0.0
    for k in range(n_late):
        largest = max(largest, weights[late[k]])
    return largest


@inlined
def _admit_late(drawing: Drawing, source: WordArray, n_arms: int, first: int, bit: Word, missing: int) -> int:
    """Continue the race at a step where heavy arms are late; return how many arrivals are missing after that.

    A late arm is proposed as if each had the largest weight of them, and admitted in proportion to its own.
    """
    pulls, weights, late = drawing.words[PULLS], drawing.floats[WEIGHTS], drawing.ints[_LATE]
    cell_bits, cell_limit, cell_arms = drawing.facts[_CELL_BITS], drawing.words[_CELL_LIMIT], drawing.cell_arms
    light_weight = drawing.numbers[_LIGHT_WEIGHT]
    n_late = _list_late(pulls, drawing.ints[_HEAVY], drawing.facts[_N_HEAVY], late, first, bit)
    largest = _largest(weights, late, n_late)
    tries = 4 * missing + n_arms // 4 + 8
    while missing > 0 and tries > 0:
        tries -= 1
        x = uniform(source) * (n_late * largest + light_weight)
        if x < n_late * largest:
            k = min(np.int64(x / largest), n_late - 1)
            arm = late[k]
            if x - k * largest < weights[arm]:
                pulls[first + arm] |= bit
                missing -= 1
                n_late -= 1
                late[k] = late[n_late]
                if weights[arm] == largest:
                    largest = _largest(weights, late, n_late)
        else:
            lane = first + _look_up(next_word(source), cell_bits, cell_limit, cell_arms)
            missing -= pulls[lane] & bit == NONE
            pulls[lane] |= bit
    return missing


@part
def _send_back(
    pulls: WordArray,
    weights: FloatArray,
    n_arms: int,
    source: WordArray,
    time: float,
    first: int,
    bit: Word,
    present: int,
    surplus: int,
) -> None:
    """Run the race backwards from its time until the surplus is gone, at one step.

    The rate of leaving is at least 1 - x/2 at all earlier times, so mostly the time itself need not be drawn; when
    it has to be, those of the `skipped` events before are drawn too.
    """
    width = np.uint64(1)
    while (ONE << width) < np.uint64(n_arms):
        width += ONE
    tries, used, skipped = next_word(source), width, 0  # a word holds several tries at an arm
    while surplus > 0:
        arm = -1
        while arm < 0:
            if used > np.uint64(64):
                tries, used = next_word(source), width
            arm = np.int64(tries & ((ONE << width) - ONE))
            tries, used = tries >> width, used + width
            if arm >= n_arms or pulls[first + arm] & bit == NONE or weights[arm] == np.inf:
                arm = -1
        x, u = weights[arm] * time, uniform(source)
        leaves = u < 1.0 - 0.5 * x
        if not leaves:
            for k in range(skipped, -1, -1):
                time *= math.exp(math.log(open_uniform(source)) / (present + k))
            skipped = 0
            x = weights[arm] * time
            leaves = x == 0.0 or u * math.expm1(x) < x
        elif surplus > 1:
            skipped += 1
        if leaves:
            pulls[first + arm] &= ~bit
            present -= 1
            surplus -= 1


@part
def _add(a: Word, b: Word, c: Word) -> tuple[Word, Word]:
    """Add three words bit by bit: the sums and the carries."""
    either = a ^ b
    return either ^ c, (a & b) | (either & c)


@part
def _count_columns(pulls: WordArray, first: int, n_arms: int, planes: WordArray, arrived: IntArray) -> None:
    """Count the arrivals of each of 64 steps: add up the arms' words bit by bit, eight at a time."""
    end = first + n_arms
    for k in range(_MAX_PLANES):
        planes[k] = NONE
    ones = twos = fours = NONE
    i = first
    while i + 8 <= end:
        ones, two_a = _add(ones, pulls[i], pulls[i + 1])
        ones, two_b = _add(ones, pulls[i + 2], pulls[i + 3])
        twos, four_a = _add(twos, two_a, two_b)
        ones, two_a = _add(ones, pulls[i + 4], pulls[i + 5])
        ones, two_b = _add(ones, pulls[i + 6], pulls[i + 7])
        twos, four_b = _add(twos, two_a, two_b)
        fours, carry = _add(fours, four_a, four_b)
        k = 3
        while carry != NONE:
            planes[k], carry = planes[k] ^ carry, planes[k] & carry
            k += 1
        i += 8
    planes[0], planes[1], planes[2] = ones, twos, fours
    while i < end:
        carry = pulls[i]
        k = 0
        while carry != NONE:
            planes[k], carry = planes[k] ^ carry, planes[k] & carry
            k += 1
        i += 1
    for step in range(LANES):
        arrived[step] = 0
    for k in range(_MAX_PLANES):
        if planes[k] != NONE:
            for step in range(LANES):
                arrived[step] += np.int64(((planes[k] >> np.uint64(step)) & ONE) << np.uint64(k))
