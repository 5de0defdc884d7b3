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


VALUES = {"logistic": logistic, "fit": fit}


def main():
    print(f"// Made by solver_values.py with SciPy {scipy.__version__}.\n#pragma once\n\n#include <vector>\n")
    print("namespace scipy_values {\n")
    for name, value in VALUES.items():
        numbers = ", ".join(repr(float(v)) for v in np.ravel(value()))
        print(f"inline const std::vector<double> {name}{{{numbers}}};")
    print("\n}  // namespace scipy_values")


if __name__ == "__main__":
    main()
