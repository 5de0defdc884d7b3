#!/usr/bin/env python3
"""Prints solver_values.hpp: what SciPy gives for the problems of the tests of solvers.

Usage: solver_values.py > solver_values.hpp
"""
import numpy as np
import scipy
import scipy.integrate
import scipy.interpolate
import scipy.optimize


def some(shape, seed):
    k = np.arange(np.prod(shape), dtype=float)
    return np.sin(k * k * 0.7 + seed).reshape(shape)


def logistic():
    data, label = some((20, 3), 1), np.sign(some((20,), 4))
    loss = lambda w: np.sum(np.log1p(np.exp(-label * (data @ w)))) + 0.5 * w @ w
    slope = lambda w: -data.T @ (label / (1 + np.exp(label * (data @ w)))) + w
    return scipy.optimize.minimize(loss, np.zeros(3), jac=slope, method="BFGS", options={"gtol": 1e-11}).x


def fit():
    t = np.arange(12) * 0.25
    y = 2.5 * np.exp(-1.3 * t) + 0.5 + 0.02 * some((12,), 2)
    model = lambda p: p[0] * np.exp(-p[1] * t) + p[2] - y
    return scipy.optimize.least_squares(model, np.ones(3), method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15).x


def predators():
    rate = lambda t, y: np.array([1.5 * y[0] - y[0] * y[1], y[0] * y[1] - 3 * y[1]]) + 0.1 * np.sin(t)
    return scipy.integrate.solve_ivp(rate, (0, 8), [10, 5], method="DOP853", rtol=1e-12, atol=1e-13,
                                     t_eval=np.linspace(0, 8, 9)).y.T


def robertson():
    def rate(t, y):
        a, b, c = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] * y[1]
        return [b - a, a - b - c, c]
    return scipy.integrate.solve_ivp(rate, (0, 1e4), [1, 0, 0], method="Radau", rtol=1e-10, atol=1e-13,
                                     t_eval=[0, 1, 100, 1e4]).y.T


X, Y = [0, 0.4, 1.1, 1.5, 2.6, 3, 4.2], [1, 2, 0.5, -1, 0.3, 2.5, 2]
AT = [-0.5, 0.2, 1.1, 2, 4.5]


def spline(ends):
    s = scipy.interpolate.CubicSpline(X, Y, bc_type=ends)
    return [*s(AT), *s(AT, 1), *s(AT, 2), *s(AT, 3), s.integrate(0.3, 3.7)]


VALUES = {
    "logistic": logistic, "fit": fit, "predators": predators, "robertson": robertson,
    "interp": lambda: np.interp([-1, 0, 0.2, 1.1, 2, 4.2, 9, 3.7], X, Y),
    "not_a_knot": lambda: spline("not-a-knot"), "natural": lambda: spline("natural"),
    "clamped": lambda: spline("clamped"),
    "two_points": lambda: scipy.interpolate.CubicSpline(X[:2], Y[:2])(AT),
    "three_points": lambda: scipy.interpolate.CubicSpline(X[:3], Y[:3])(AT),
}


def main():
    print(f"// Made by solver_values.py with SciPy {scipy.__version__}.\n#pragma once\n\n#include <vector>\n")
    print("namespace scipy_values {\n")
    for name, value in VALUES.items():
        numbers = ", ".join(repr(float(v)) for v in np.ravel(value()))
        print(f"inline const std::vector<double> {name}{{{numbers}}};")
    print("\n}  // namespace scipy_values")


if __name__ == "__main__":
    main()
