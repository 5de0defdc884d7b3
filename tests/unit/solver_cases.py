#!/usr/bin/env python3
"""Prints solver_cases.hpp: for each family of problems with three parameters, what NumPy and SciPy give, and the
derivatives of a weighted sum of it by the parameters (differences, extrapolated). solvers_cases_test.cpp has the same
problems.

Usage: solver_cases.py > solver_cases.hpp
"""
import numpy as np
import scipy
from scipy import integrate, interpolate, optimize

CASES = 32


def parameters(case):
    return np.sin(3.1 * case + 1.3 * np.arange(3) ** 2 + 0.7)


def root_of_two(p):
    f = lambda x: [x[0] + 0.5 * p[0] * np.sin(x[1]) - p[1], x[1] - 0.5 * p[0] * np.cos(x[0]) - p[2]]
    return optimize.root(f, [0, 0], tol=1e-14).x


def root_of_springs(p):
    def f(x):
        stretch = np.diff([0, *x])
        pull = (1.5 + p) * (stretch + stretch ** 3)
        return pull - np.append(pull[1:], 0) - 0.1
    return optimize.root(f, np.zeros(3), tol=1e-14).x


def bisect(p):
    f = lambda x, shift: x + 0.5 * np.sin((1.5 + p[0]) * x) / (1.5 + p[0]) - shift
    return [optimize.brentq(f, -5, 5, args=(shift,), xtol=1e-14, rtol=1e-14) for shift in (p[1], p[2], 0.5)]


def newton_minimum(slope, curvature, x):
    """Where the slope vanishes, to all digits."""
    for _ in range(60):
        x = x - np.linalg.solve(curvature(x), slope(x))
    return x


def minimum_of_quartic(p):
    target = 0.3 * np.roll(p, -1)
    f = lambda x: np.sum((x - p) ** 4) / 4 + 0.5 * np.sum((x - target) ** 2) + 0.1 * x[0] * x[1]
    cross = 0.1 * np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    found = optimize.minimize(f, np.zeros(3), method="BFGS").x
    return newton_minimum(lambda x: (x - p) ** 3 + x - target + cross @ x,
                          lambda x: np.diag(3 * (x - p) ** 2 + 1) + cross, found)


def minimum_of_rosenbrock(p):
    a, b = 1 + 0.3 * p[0], 10 * (1.5 + p[1])
    f = lambda x: (a - x[0]) ** 2 + b * (x[1] - x[0] ** 2) ** 2 + 0.1 * p[2] * x[1]
    slope = lambda x: np.array([-2 * (a - x[0]) - 4 * b * x[0] * (x[1] - x[0] ** 2),
                                2 * b * (x[1] - x[0] ** 2) + 0.1 * p[2]])
    curvature = lambda x: np.array([[2 - 4 * b * (x[1] - 3 * x[0] ** 2), -4 * b * x[0]], [-4 * b * x[0], 2 * b]])
    return newton_minimum(slope, curvature, optimize.minimize(f, np.zeros(2), jac=slope, method="BFGS").x)


def least_squares(p):
    t = 0.25 * np.arange(12)
    y = (2 + p[0]) * np.exp(-(1 + 0.2 * p[1]) * t) + 0.1 * p[2] + 0.02 * np.sin(3 * t + p[0])
    model = lambda x: x[0] * np.exp(-x[1] * t) + x[2] - y
    return optimize.least_squares(model, np.ones(3), method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15).x


def ode(rate, start, end, method="DOP853"):
    return integrate.solve_ivp(rate, (0, end), start, method=method, rtol=3e-14, atol=1e-15).y[:, -1]


def oscillator(p):
    rate = lambda t, y: [y[1], -(1 + 0.3 * p[0]) ** 2 * y[0] - 0.2 * (1 + p[1]) * y[1] + 0.1 * np.sin(t)]
    return ode(rate, [1 + 0.2 * p[2], 0], 4)


def logistic_growth(p):
    return ode(lambda t, y: (1 + 0.3 * p[0]) * y * (1 - y / (2 + 0.5 * p[1])), [0.5 + 0.1 * p[2]], 3)


def van_der_pol(p):
    rate = lambda t, y: [y[1], (5 + 2 * p[0]) * (1 - y[0] ** 2) * y[1] - (1 + 0.1 * p[1]) * y[0]]
    return ode(rate, [2 + 0.1 * p[2], 0], 2)


def area(f, a, b, **options):
    return integrate.quad(f, a, b, epsabs=1e-14, epsrel=1e-13, limit=400, **options)[0]


def quad_of_wave(p):
    return [area(lambda x: np.exp(-(1 + 0.3 * p[0]) * x) * np.cos((2 + p[1]) * x), 0, 2 + 0.5 * p[2])]


def quad_of_line(p):
    return [area(lambda x: np.exp(-(1 + 0.3 * p[0]) * x * x) * np.cos(p[1] * x + p[2]), -np.inf, np.inf)]


def quad_of_singular(p):
    return [area(lambda x: (1 + p[1] * x) * np.exp(p[2] * x), 0, 1, weight="alg", wvar=(-0.3 - 0.1 * p[0], 0))]


def points(p):
    i = np.arange(8.0)
    return i + 0.3 * np.sin(p[2] * i), np.sin((1 + p[0]) * i) + p[1]


def interp(p):
    return np.interp(-1.05 + 0.9 * np.arange(11), *points(p))


def spline(ends):
    return lambda p: interpolate.CubicSpline(*points(p), bc_type=ends)(-0.3 + 0.75 * np.arange(10))


def system(p):
    i, j = np.meshgrid(np.arange(6.0), np.arange(6.0), indexing="ij")
    b = np.sin(i * j * (1 + 0.2 * p[0]) + p[1] + i)
    return b @ b.T + 2 * np.eye(6), b + 4 * np.eye(6), np.cos(np.arange(6.0) + p[2])


def symmetric_system(p):
    a, _, b = system(p)
    return np.linalg.solve(a, b)


def any_system(p):
    _, a, b = system(p)
    return np.linalg.solve(a, b)


def largest_values(p):
    i = np.arange(12.0)
    d = (1 + 0.2 * p[0]) * i * i / 10 + p[1]
    u = np.cos(i + p[2])
    return np.linalg.eigvalsh(np.diag(d) + 0.3 * np.outer(u, u))[::-1][:2]


FAMILIES = {
    "root_of_two": root_of_two, "root_of_springs": root_of_springs, "bisect": bisect,
    "minimum_of_quartic": minimum_of_quartic, "minimum_of_rosenbrock": minimum_of_rosenbrock,
    "least_squares": least_squares, "oscillator": oscillator, "logistic_growth": logistic_growth,
    "van_der_pol": van_der_pol, "quad_of_wave": quad_of_wave, "quad_of_line": quad_of_line,
    "quad_of_singular": quad_of_singular, "interp": interp, "spline_not_a_knot": spline("not-a-knot"),
    "spline_natural": spline("natural"), "spline_clamped": spline("clamped"), "symmetric_system": symmetric_system,
    "any_system": any_system, "largest_values": largest_values,
}


def weighted(values):
    values = np.asarray(values, dtype=float)
    return np.sum(values / np.arange(1, len(values) + 1))


def slopes(function, p, h):
    out = []
    for k in range(3):
        step = np.eye(3)[k]
        central = lambda h: (weighted(function(p + h * step)) - weighted(function(p - h * step))) / (2 * h)
        out.append((64 * central(h / 4) - 20 * central(h / 2) + central(h)) / 45)
    return out


def text(numbers):
    return " ".join(f"{x:.13g}" for x in numbers)


print(f'''// Made by solver_cases.py with NumPy {np.__version__} and SciPy {scipy.__version__}: \
family, case; values; derivatives of their weighted sum.
#pragma once

inline constexpr const char* solver_cases = R"(''', end="")
for name, function in FAMILIES.items():
    for case in range(CASES):
        p = parameters(case)
        step = 2e-5 if function is interp else 2e-3  # corners of interp are close
        print(name, case, ";", text(function(p)), ";", text(slopes(function, p, step)))
print(')";')
