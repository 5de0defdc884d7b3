#!/usr/bin/env python3
"""Derives the coefficients of include/sinter/backend/x86/math/coefficients.hpp and include/sinter/ops/coefficients.hpp.

Usage: pip install mpmath; tools/minimax.py > include/sinter/backend/x86/math/coefficients.hpp
       tools/minimax.py ops > include/sinter/ops/coefficients.hpp

Each row of TABLES is a polynomial P(t(x)) that approximates target(x) on [lo, hi]; weight(x) turns its error into the
relative error of the function that is built from it. The Remez exchange runs on a grid of Chebyshev nodes in 50-digit
arithmetic. Coefficients are rounded one by one, lowest degree first, and what is left is fitted again, so that later
coefficients make up for the rounding of earlier ones (an idea of Brisebarre and Chevillard, "Efficient polynomial
L-infinity approximations", ARITH 2007, in its simplest greedy form).
"""
import sys
from mpmath import mp, mpf

mp.dps = 50
GRID = 600


def horner(coefficients, x):
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def solve_alternating(points, values, weights, degree):
    """Polynomial whose weighted error alternates with equal size over degree + 2 points."""
    n = degree + 2
    matrix, right = mp.matrix(n, n), mp.matrix(n, 1)
    for i in range(n):
        power = weights[i]
        for j in range(degree + 1):
            matrix[i, j] = power
            power *= points[i]
        matrix[i, degree + 1] = (-1) ** i
        right[i] = weights[i] * values[i]
    solution = mp.lu_solve(matrix, right)
    return [solution[j] for j in range(degree + 1)], abs(solution[degree + 1])


def extremes(errors, count):
    """Indices of `count` alternating extremes: one per run of equal sign, the weakest dropped."""
    best = []
    for i, e in enumerate(errors):
        if best and (errors[best[-1]] > 0) == (e > 0):
            if abs(e) > abs(errors[best[-1]]):
                best[-1] = i
        else:
            best.append(i)
    while len(best) > count:
        sizes = [abs(errors[i]) for i in best]
        k = sizes.index(min(sizes))
        if len(best) == count + 1 or k in (0, len(best) - 1):   # only an end can go alone
            best.pop(0 if sizes[0] < sizes[-1] else -1)
        else:                                                   # inside, signs alternate only if a pair goes
            j = k - 1 if sizes[k - 1] < sizes[k + 1] else k + 1
            for index in sorted((j, k), reverse=True):
                best.pop(index)
    return best


def remez(grid, values, weights, degree):
    n = degree + 2
    reference = [round((len(grid) - 1) * i / (n - 1)) for i in range(n)]
    coefficients = None
    for _ in range(40):
        coefficients, level = solve_alternating(*([row[i] for i in reference] for row in (grid, values, weights)), degree)
        errors = [w * (v - horner(coefficients, x)) for x, v, w in zip(grid, values, weights)]
        following = extremes(errors, n)
        if len(following) < n or following == reference or max(map(abs, errors)) <= level * mpf('1.0005'):
            break
        reference = following
    return coefficients


def round_to(x, bits):
    if x == 0:
        return x
    mantissa, exponent = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(mantissa, bits)), int(exponent) - bits)


def fit(target, weight, lo, hi, degree, bits, variable=lambda x: x):
    lo, hi = mpf(lo), mpf(hi)
    xs = [lo + (hi - lo) * (1 - mp.cos(mp.pi * (i + mpf(1) / 2) / GRID)) / 2 for i in range(GRID)]
    grid = [variable(x) for x in xs]
    values, weights = [target(x) for x in xs], [abs(weight(x)) for x in xs]
    left_values, left_weights, result = values, weights, []
    coefficients = remez(grid, values, weights, degree)
    for j in range(degree + 1):
        result.append(round_to(coefficients[0], bits))
        if j == degree:
            break
        left_values = [(v - result[-1]) / x for v, x in zip(left_values, grid)]
        left_weights = [abs(w * x) for w, x in zip(left_weights, grid)]
        coefficients = remez(grid, left_values, left_weights, degree - j - 1)
    worst = max(abs(w * (v - horner(result, x))) for x, v, w in zip(grid, values, weights))
    return result, mp.log(worst, 2)


TINY = mpf('1e-6')                       # keeps removable singularities out of the grid
HALF_LN2 = mpf('0.3467')                 # ln(2)/2 and room for the rounding of n
SQRT_HALF, SQRT_TWO = mp.sqrt(mpf(1) / 2), mp.sqrt(2)
ATANH_END = ((SQRT_TWO - 1) / (SQRT_TWO + 1)) ** 2 * mpf('1.0001')
SINE_END = mp.pi / 2 + mpf('0.06')       # room for a quotient that is off by 0.02 (large arguments)


def atanh_tail(z):                       # log(m) = s * (2 + z * (2/3 + z * atanh_tail(z))), s = (m-1)/(m+1), z = s^2
    s = mp.sqrt(z)
    return ((2 * mp.atanh(s) / s - 2) / z - mpf(2) / 3) / z


def erf_root(a):                         # erf(a) = 1 - (1 - a * (1 + erf_root(a)) / 8)^8
    return 8 * (1 - mp.erfc(a) ** (mpf(1) / 8)) / a - 1


def erf_weight(a):                       # how an error of erf_root shows in erf, relatively
    return a * mp.erfc(a) ** (mpf(7) / 8) / mp.erf(a)


TAIL_SCALES = (4, 6)                     # of u = a / (1 + a / scale), which maps all a >= 0 to [0, scale)
TAIL_CENTRES = (2, mpf('3.5'))           # the polynomial is in u - centre, so that its terms do not cancel
TAIL_ENDS = (15, 39)                     # of a: beyond, e^(-a^2/2) is 0


def normal_tail(scale, centre):          # Phi(-a) e^(a^2/2) (1 + a / scale): what is left of the normal distribution's tail
    def target(w):
        u = w + centre
        a = u / (1 - u / scale)
        return mp.erfc(a / mp.sqrt(2)) * mp.exp(a * a / 2) / 2 * (1 + a / scale)
    return target


def relative(target):
    return lambda x: 1 / target(x)


def of_both(function, *rows):            # what differs between f32 and f64
    return tuple(function(*values) for values in zip(*rows))


# name, meaning, target, weight, lo, hi, degree of f32 and f64, variable
TABLES = [
    ('expm1', '(e^r - 1 - r) / r^2, |r| <= ln(2)/2', lambda r: (mp.expm1(r) - r) / r ** 2,
     lambda r: r * r / mp.expm1(r), -HALF_LN2, HALF_LN2, (4, 9), lambda r: r),
    ('log', '(log(1 + f) - f + f^2/2) / f^3, sqrt(1/2) <= 1 + f <= sqrt(2)',
     lambda f: (mp.log1p(f) - f + f * f / 2) / f ** 3, lambda f: f ** 3 / mp.log1p(f),
     SQRT_HALF - 1, SQRT_TWO - 1, (7, 18), lambda f: f),
    ('sin', '(sin(r) - r) / r^3 in r^2, |r| <= pi/2', lambda r: (mp.sin(r) - r) / r ** 3,
     lambda r: r ** 3 / mp.sin(r), TINY, SINE_END, (3, 7), lambda r: r * r),
    ('erf', '8 * (1 - erfc(a)^(1/8)) / a - 1, 0 <= a <= 3.93 (f32), 5.95 (f64)', erf_root, erf_weight,
     TINY, (mpf('3.93'), mpf('5.95')), (7, 24), lambda a: a),
    ('atanh', '((2 * atanh(s)/s - 2) / z - 2/3) / z in z = s^2, s <= (sqrt(2)-1) / (sqrt(2)+1)', atanh_tail,
     lambda z: z * z / 2, TINY, ATANH_END, (3, 7), lambda z: z),
    ('normal_tail', 'Phi(-a) e^(a^2/2) (1 + a/4) in a / (1 + a/4) - 2, a <= 15 (f32), or a/6 and - 3.5, a <= 39 (f64)',
     of_both(normal_tail, TAIL_SCALES, TAIL_CENTRES), of_both(relative, of_both(normal_tail, TAIL_SCALES, TAIL_CENTRES)),
     of_both(lambda centre: -centre, TAIL_CENTRES),
     of_both(lambda scale, end, centre: end / (1 + mpf(end) / scale) - centre, TAIL_SCALES, TAIL_ENDS, TAIL_CENTRES),
     (9, 21), lambda w: w),
]

BESSEL_END = 8                           # up to here polynomials in x, beyond in 1 / x


def atan_tail(z):                        # atan(r) = r + r z atan_tail(z), z = r^2
    r = mp.sqrt(z)
    return (mp.atan(r) / r - 1) / z


def asin_tail(z):                        # asin(r) = r + r z asin_tail(z), z = r^2
    r = mp.sqrt(z)
    return (mp.asin(r) / r - 1) / z


def gamma_middle(t):                     # lgamma(2 + t) / t
    return mp.loggamma(2 + t).real / t


def gamma_weight(t):
    return t / mp.loggamma(2 + t).real


def stirling(z):                         # x (lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2)), z = 1 / x^2
    x = 1 / mp.sqrt(z)
    return x * (mp.loggamma(x).real - ((x - mpf(1) / 2) * mp.log(x) - x + mp.log(2 * mp.pi) / 2))


def bessel_near(order):                  # I0(x) or I1(x) / x in z = x^2: all terms are positive
    def target(z):
        x = mp.sqrt(z)
        return mp.besseli(order, x) / x ** order
    return target


def bessel_far(order):                   # sqrt(x) e^-x I(x) in 16 / x - 1
    def target(w):
        x = 2 * BESSEL_END / (w + 1)
        return mp.sqrt(x) * mp.besseli(order, x) * mp.exp(-x)
    return target


def erf_inverse_near(z):                 # erfinv(a) / a, z = a^2
    a = mp.sqrt(z)
    return mp.erfinv(a) / a


def erf_inverse_far(t):                  # erfinv(a), t = sqrt(-log(1 - a)) - 3.5
    return mp.erfinv(1 - mp.exp(-(t + mpf('3.5')) ** 2))


NEAR, FAR = mpf('1e-9') - 1, mpf(1)
# The same of the functions that ops are made of for every back end.
OPS_TABLES = [
    TABLES[0],
    ('atan', '(atan(r)/r - 1) / z in z = r^2, r <= 1', atan_tail, lambda z: z * mp.sqrt(z) / mp.atan(mp.sqrt(z)),
     TINY, mpf('1.0001'), (7, 18), lambda z: z),
    ('asin', '(asin(r)/r - 1) / z in z = r^2, r <= 1/2', asin_tail, lambda z: z * mp.sqrt(z) / mp.asin(mp.sqrt(z)),
     TINY, mpf('0.25001'), (4, 11), lambda z: z),
    TABLES[5],
    ('gamma_middle', 'lgamma(2 + t) / t, |t| <= 1/2', gamma_middle, gamma_weight, mpf('-0.500001'), mpf('0.500002'), (8, 18),
     lambda t: t),
    ('stirling', 'x (lgamma(x) - ((x - 1/2) log(x) - x + log(2 pi) / 2)) in z = 1/x^2, x >= 8', stirling, lambda z: mpf(1) / 32,
     mpf('1e-8'), mpf(1) / 64, (2, 6), lambda z: z),
    ('erf_inverse_near', 'erfinv(a) / a in a^2, a <= 0.81', erf_inverse_near, relative(erf_inverse_near), TINY, mpf('0.66'), (6, 6),
     lambda z: z),
    ('erf_inverse_far', 'erfinv(a) in t = sqrt(-log(1 - a)) - 3.5, a >= 0.8', erf_inverse_far, relative(erf_inverse_far),
     mpf('-2.24'), mpf('2.6'), (8, 8), lambda t: t),
    ('i0_near', 'I0(x) in x^2, x <= 8', bessel_near(0), relative(bessel_near(0)), TINY, mpf(64), (11, 20), lambda z: z),
    ('i0_far', 'sqrt(x) e^-x I0(x) in 16/x - 1, x >= 8', bessel_far(0), relative(bessel_far(0)), NEAR, FAR, (6, 24), lambda w: w),
    ('i1_near', 'I1(x) / x in x^2, x <= 8', bessel_near(1), relative(bessel_near(1)), TINY, mpf(64), (11, 20), lambda z: z),
    ('i1_far', 'sqrt(x) e^-x I1(x) in 16/x - 1, x >= 8', bessel_far(1), relative(bessel_far(1)), NEAR, FAR, (6, 24), lambda w: w),
]


def truncate_to(x, bits):
    mantissa, exponent = mp.frexp(x)
    return mp.ldexp(mp.floor(mp.ldexp(mantissa, bits)), int(exponent) - bits)


def split(x, bits, count, first_bits=None, nearest=round_to):
    parts = []
    for i in range(count):
        part = nearest(x, first_bits if first_bits and i == 0 else bits)
        parts.append(part)
        x -= part
    return parts


def literal(x):
    return float(x).hex()


def emit(name, comment, values):
    print(f'// {comment}')
    text = [literal(v) for v in values]
    if len(text) == 1:
        print(f'inline constexpr double {name} = {text[0]};')
        return
    print(f'inline constexpr double {name}[] = {{')
    for i in range(0, len(text), 4):
        print('    ' + ' '.join(t + ',' for t in text[i:i + 4]))
    print('};')


def emit_inverse_pi():
    """Enough of 1 / pi for the largest f64: any 53 bits of an argument meet 192 bits here that tell its remainder."""
    bits, words = 1162, 19
    with mp.workprec(bits + 64):
        value = int(mp.floor(mp.ldexp(1 / mp.pi, bits)))
    print('namespace x86 {\n')
    print(f'// 1 / pi as an integer, in units of 2^-{bits}; the lowest word first.')
    print(f'inline constexpr int inverse_pi_unit = {bits};')
    print(f'inline constexpr std::uint64_t inverse_pi_bits[{words}] = {{')
    text = [f'0x{value >> 64 * i & (2 ** 64 - 1):016x}' for i in range(words)]
    for i in range(0, words, 4):
        print('    ' + ' '.join(t + ',' for t in text[i:i + 4]))
    print('};\n\n}  // namespace x86')


TANH_PIECES = 8
TANH_END = mpf('9.03')                   # from a little below on f32 has 1, and the last polynomial, too
TANH_BREAKS = [2, 3, 4, 6, 8, 12, 16, 24, 32]   # of v = 2 + a * scale: half octaves, told by three bits of v
TANH_SCALE = round_to(30 / TANH_END, 24)


def last_place(x):                       # of f32
    return mp.ldexp(1, int(mp.frexp(x)[1]) - 24)


def near_single(lo, hi):
    """A number a little below the middle whose tanh f32 holds nearly exactly, so that the polynomial's first coefficient is right."""
    middle = lo + (hi - lo) * mpf('0.48')
    candidates = [round_to(middle * (1 + mpf(k) / 100000), 24) for k in range(-150, 151)]
    return min(candidates, key=lambda c: abs(mp.tanh(c) - round_to(mp.tanh(c), 24)))


def tanh_piece(index, degree=6):
    """The centre and the coefficients in a - centre of one piece, and the largest error in units of the last place."""
    lo, hi = ((v - 2) / TANH_SCALE for v in TANH_BREAKS[index:index + 2])
    lo, hi = lo * (1 - mpf('1e-6')), hi * (1 + mpf('1e-6'))   # v is rounded
    if index == 0:                       # around 0 the error counts relatively: a + a^2 (...)
        values, error = fit(lambda a: (mp.tanh(a) / a - 1) / a, lambda a: a, TINY, hi, degree - 2, 24)
        return [mpf(0), mpf(0), mpf(1)] + values, 2 ** (error + 24)
    centre = near_single(lo, hi)
    values, error = fit(lambda t: mp.tanh(centre + t), lambda t: 1 / last_place(mp.tanh(centre + t)), lo - centre, hi - centre, degree, 24)
    return [centre] + values, 2 ** error


def emit_tanh():
    pieces = [tanh_piece(i) for i in range(TANH_PIECES)]
    print(f'tanh: {max(float(error) for _, error in pieces):.2f} ulp', file=sys.stderr, flush=True)
    emit('tanh_end', 'From here on tanh is 1, in f32.', [round_to(TANH_END * (1 - mpf('1e-5')), 24)])
    emit('tanh_scale', 'v = 2 + a * tanh_scale tells by three of its bits, half octaves from 2 to 32, which of eight polynomials has tanh(a).',
         [TANH_SCALE])
    print('// A column for each: its centre, and its coefficients in a - centre from the lowest on. Error '
          f'{max(float(error) for _, error in pieces):.2f} ulp.')
    rows = list(zip(*(values for values, _ in pieces)))
    print(f'inline constexpr float tanh_pieces[{len(rows)}][{TANH_PIECES}] = {{')
    for row in rows:
        text = [literal(v).replace('000000p', 'p') + 'f' for v in row]
        print('    {' + ', '.join(text) + '},')
    print('};')


def emit_tables(tables, bits, which, suffix):
    for name, meaning, target, weight, lo, hi, degrees, variable in tables:
        target, weight, lo, hi = (v[which] if isinstance(v, tuple) else v for v in (target, weight, lo, hi))
        values, error = fit(target, weight, lo, hi, degrees[which], bits, variable)
        print(f'{name}_{suffix}: 2^{float(error):.2f}', file=sys.stderr, flush=True)
        emit(name, f'{meaning}. Relative error 2^{float(error):.1f}.', values)


def main_of_ops():
    print('// Coefficients of the functions that ops are made of. Made by tools/minimax.py, not by hand: edit that and run it again.')
    print('#pragma once\n\n#include <sinter/base/config.hpp>\n\nSINTER_NAMESPACE_BEGIN')
    for suffix, bits, which in (('f32', 24, 0), ('f64', 53, 1)):
        print(f'namespace ops_detail::coefficients_{suffix} {{\n')
        emit_tables(OPS_TABLES, bits, which, suffix)
        print(f'\n}}  // namespace ops_detail::coefficients_{suffix}')
    print('SINTER_NAMESPACE_END')


def main():
    print('// Coefficients of the vector math functions. Made by tools/minimax.py, not by hand: edit that and run it again.')
    print('#pragma once\n\n#include <sinter/base/config.hpp>\n\n#include <cstdint>\n\nSINTER_NAMESPACE_BEGIN')
    for suffix, bits, which in (('f32', 24, 0), ('f64', 53, 1)):
        print(f'namespace x86::coefficients_{suffix} {{\n')
        emit_tables(TABLES, bits, which, suffix)
        emit('log2_e', '1 / ln(2).', split(1 / mp.log(2), bits, 1))
        emit('ln2', 'ln(2) in two parts; their sum is right to twice the precision.', split(mp.log(2), bits, 2))
        emit('ln2_short', 'The same; the first part times any exponent is exact.', split(mp.log(2), bits, 2, bits - (9 if which == 0 else 11)))
        emit('inverse_pi', '1 / pi.', split(1 / mp.pi, bits, 1))
        emit('pi', 'pi in three parts (Cody and Waite), all positive, so that -0 stays -0.',
             split(mp.pi, bits, 3, nearest=truncate_to))
        emit('two_thirds', '2/3 in two parts.', split(mpf(2) / 3, bits, 2))
        if which == 0:
            emit_tanh()
        print(f'\n}}  // namespace x86::coefficients_{suffix}')
    emit_inverse_pi()
    print('SINTER_NAMESPACE_END')


if __name__ == '__main__':
    main_of_ops() if sys.argv[1:] == ['ops'] else main()
