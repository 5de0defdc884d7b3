#!/usr/bin/env python3
"""Every public function that gives tensors is called by the table of the oracle or stands below with its reason; each row of
the table has at least 20 cases, of linear algebra 30; each name of PyTorch that docs/op_coverage.md says is there is compared by value, or stands
below; the row calls that function of PyTorch, or OTHERWISE says what it is compared with; docs/differences.md names every
function that the cases say differs.

Usage: coverage_test.py PROJECT_FOLDER
"""
import pathlib
import re
import sys

RANDOM = "random: 32 sets of parameters against SciPy in tests/unit/random_cases.hpp, derivatives beside them"
DROPPED = "random: moments, and what is kept, are tested"
SAME = "another name of one that is in the table"
READS = "gives no tensor"
FOURIER = "compared with PyTorch, gradients too, by tests/unit/fft_test.cpp"
FUNCTIONS = {
    RANDOM: """rand randn uniform normal log_normal cauchy laplace exponential geometric bernoulli poisson gamma standard_gamma
        randint randperm multinomial categorical truncated_normal student_t beta dirichlet binomial multivariate_normal
        permutation choice bits""",
    DROPPED: """rand_like randn_like dropout feature_dropout alpha_dropout feature_alpha_dropout gumbel_softmax rrelu_training""",
    "keys of random numbers: tests/unit/random_keys_test.cpp": "key split_many fold_in with_key",
    SAME: "left_shift right_shift swapaxes swapdims moveaxis unstack cat",
    READS: "allclose array_equal set_default_device manual_seed list_ops",
    "a value as it is, or a copy on another device": "to_device eval",
    "functions of the caller: tests/unit/tree_map_test.cpp": "map map_over",
    "any operation by its name: tests/unit/by_name_test.cpp": "call",
    FOURIER: """fft::fft fft::fft2 fft::fftn fft::fftshift fft::hfft fft::hfft2 fft::hfftn fft::ifft fft::ifft2 fft::ifftn
        fft::ifftshift fft::ihfft fft::ihfft2 fft::ihfftn fft::irfft fft::irfft2 fft::irfftn fft::rfft fft::rfft2 fft::rfftn
        fft::stft fft::istft""",
    "assignment to a part: select_scatter, slice_scatter and diagonal_scatter go through it": "update",
}
# Names of docs/op_coverage.md without a row of their own.
TORCH = {
    DROPPED: """bernoulli cauchy exponential geometric log_normal multinomial normal uniform rand_like randint randn randn_like
        nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
        nn.functional.feature_alpha_dropout randint_like""",
    "what they are without _copy, or a value as it is": """H T mH mT t t_copy transpose_copy permute_copy expand_copy squeeze_copy
        unsqueeze_copy narrow_copy unfold_copy diagonal_copy split_with_sizes_copy unbind_copy as_strided_copy alias_copy clone
        contiguous resolve_conj resolve_neg""",
    "dtypes of complex numbers: tests/unit/complex_test.cpp": "cfloat cdouble",
    "operators and memory of other rows": """__radd__ __rand__ __rdiv__ __rmod__ __rmul__ __ror__ __rpow__ __rsub__ __rxor__ max min
        std empty empty_like new_empty empty_permuted empty_strided new_empty_strided fill zero_ new_full new_ones new_zeros
        scalar_tensor resize_ resize_as_ as_strided_scatter""",
    FOURIER: """fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.ihfft2 fft.ihfftn
        fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn istft stft""",
    "gives no tensor": "allclose item equal broadcast_shapes",
    "given a size: `size=` of the row `nonzero`": "nonzero_static",
    "f8 by f8, beside products of f64: tests/unit/quantization_test.cpp": "torch._scaled_mm torch._scaled_mm_v2",
    "a row of its parts": """native_layer_norm _chunk_cat _unsafe_masked_index _unsafe_masked_index_put_accumulate svd_lowrank
        pca_lowrank _softmax_backward_data native_dropout_backward max_pool2d_with_indices_backward nn.functional.max_unpool1d
        nn.functional.max_unpool2d nn.functional.max_unpool3d""",
    "kernels are what functions become": """jiterator_unary jiterator_binary jiterator_binary_return_by_ref
        jiterator_4inputs_with_extra_args jiterator_2inputs_2outputs""",
}
# Names that a row is credited with though its results come from other functions (`~` in the cases, by rows.py).
OTHERWISE = {
    "SciPy's function of that name, which keeps more digits": """digamma i0 igamma igammac polygamma nn.functional.gelu
        special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1 special.erfcx special.i1 special.log_ndtr
        special.modified_bessel_i0 special.modified_bessel_i1 special.modified_bessel_k0 special.modified_bessel_k1
        special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.ndtr special.ndtri special.polygamma
        special.spherical_bessel_j0 special.zeta""",
    "the recurrence or formula that defines it": """special.chebyshev_polynomial_t special.chebyshev_polynomial_u
        special.chebyshev_polynomial_v special.chebyshev_polynomial_w special.shifted_chebyshev_polynomial_t
        special.shifted_chebyshev_polynomial_u special.shifted_chebyshev_polynomial_v
        special.shifted_chebyshev_polynomial_w special.hermite_polynomial_h special.hermite_polynomial_he
        special.laguerre_polynomial_l special.legendre_polynomial_p nn.functional.batch_norm nn.functional.bilinear
        nn.functional.celu nn.functional.cosine_similarity nn.functional.hardsigmoid nn.functional.hardswish
        linalg.matrix_sqrth linalg.polar linalg.vander aminmax dist norm renorm trace eye sgn""",
    "the same with the order of equal elements, of places or of NaN said, which PyTorch leaves open": """median nanmedian topk
        kthvalue msort scatter index_copy index_reduce take _segment_reduce histogram nn.functional.pad constant_pad_nd slice
        masked.median masked.norm masked.softmin""",
    "another name of what is called": """__rmatmul__ swapaxes trapz triangular_solve lu_unpack pinverse unsafe_chunk
        unsafe_split view_as view_copy fft.ifftshift bool byte char short int long half bfloat16 float double
        nn.functional.logsigmoid nn.functional.upsample_bilinear nn.functional.upsample_nearest _native_batch_norm_legit
        _batch_norm_with_update""",
    "kernels of attention, and what is made of it": """torch.ops.aten._efficient_attention_forward
        torch.ops.aten._flash_attention_forward torch.ops.aten._safe_softmax.default
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu""",
}
# What moves values between host and tensors, and what expressions are made of.
NO_OPERATIONS = {"host.hpp", "host_run.hpp", "tree.hpp", "tree_walk.hpp", "capture.hpp", "expr.hpp", "recording.hpp", "term.hpp",
                 "signature.hpp", "equality.hpp", "handles.hpp", "contract.hpp", "gather_scatter_records.hpp"}
DECLARATION = re.compile(r"^(?:auto|[A-Z]\w*|std::vector<Tensor>|std::vector<OpSignature>|void|Agreement) (\w+)\(", re.MULTILINE)
MACRO = re.compile(r"^SINTER_(?:UNARY_FUNCTION|BINARY_FUNCTION|FUNCTION_OF_NUMBER)\((\w+),", re.MULTILINE)


def listed(table):
    return {name for names in table.values() for name in names.split()}


def least_of(row):
    """How many cases it must have: more of linear algebra, signals, quantised numbers; singular and nearly singular matrices
    are among those of matrices."""
    return 30 if re.match("(complex |ill-conditioned )?linalg[.]", row) or row in MANY else 20


def problems_of_lists(project):
    """Where the cases of a function are a list of tests/unit, a line each: 30 of them at least."""
    problems = []
    for page, wanted in LISTS.items():
        lines = (project / "tests" / "unit" / page).read_text().splitlines()
        names = [line[line.find('R"(') + 3 if 'R"(' in line else 0:].split(" ")[0] for line in lines]
        problems += [f"{name} has {names.count(name)} cases in tests/unit/{page}"
                     for name in sorted(set(wanted)) if names.count(name) < 30]
    return problems


def solvers(project):
    """Names of functions that end in options, or in the ends of a spline."""
    texts = [path.read_text() for path in sorted((project / "include" / "sinter" / "solvers").glob("*.hpp"))]
    return set(re.findall(r"^[A-Z]\w* (\w+)\((?:.*\n)??.*(?:Options options = \{\}|SplineEnds ends = .*)\)", "\n".join(texts), re.MULTILINE))


def public_functions(folder):
    """Names of functions that the headers declare; those of linalg and window with their namespace."""
    found = {}
    for path in sorted(folder.glob("*.hpp")):
        if path.name in NO_OPERATIONS:
            continue
        text = re.sub(r"namespace (?:expr_detail|tensor_detail) \{.*?\}  // namespace (?:expr_detail|tensor_detail)", "",
                      path.read_text(), flags=re.DOTALL)
        prefix = {"linalg.hpp": "linalg::", "windows.hpp": "window::", "fft.hpp": "fft::", "fft_signal.hpp": "fft::"}.get(path.name, "")
        for name in DECLARATION.findall(text) + MACRO.findall(text):
            found.setdefault(prefix + name, path.name)
    return found


def torch_names(page):
    """Of the part on PyTorch, but for what is not there."""
    part = page[page.index("## PyTorch"):page.index("Not there:")]
    names = part[part.index("```text") + 7:part.index("```\n\n")].split()
    for line in part.splitlines():
        if line.startswith("|") and not line.startswith(("|---", "| PyTorch")):
            names += line.split("|")[1].split()
    return names


def main():
    project = pathlib.Path(sys.argv[1])
    folder = project / "tests" / "oracle"
    code = "\n".join(path.read_text() for path in sorted(folder.glob("*.cpp"))
                     if path.name not in ("oracle_test.cpp", "cases.cpp"))
    rows = set(re.findall(r'^      \{"([^"]+)",', code, re.MULTILINE))
    headers, counts = {}, {}
    for path in sorted((folder / "cases").glob("*.txt")):
        for line in path.read_text().splitlines():
            if line.startswith("> "):
                name = line[2:line.index(" ulp=")]
                headers[name], counts[name] = line, 0
            else:
                counts[name] += 1
    functions = public_functions(project / "include" / "sinter" / "expr")
    excused = listed(FUNCTIONS)
    called = {name for name in functions if re.search(rf"(?<![\w.]){'' if '::' in name else '(?<!::)'}{name}(?:<\w+>)?\(", code)
              or name == "all"}
    problems = [f"{name} ({functions[name]}) is not in the oracle's table" for name in sorted(set(functions) - called - excused)]
    problems += [f"{name} is excused, and is {'called' if name in called else 'no function'}"
                 for name in sorted(excused) if name in called or name not in functions]
    problems += [f"{name} has no row in the table" for name in sorted(set(headers) - rows)]
    problems += [f"{name} has no cases" for name in sorted(rows - set(headers) - {name for name in rows if name in FAMILIES})]
    problems += [f"{name} has {count} cases" for name, count in counts.items() if count < least_of(name)]
    problems += problems_of_lists(project)
    problems += [f"solvers::{name} has no family of problems in SOLVERS" for name in sorted(solvers(project) ^ set(SOLVERS))]
    credited = {name for line in headers.values() for name in line[line.index(" torch=") + 7:].split(",")}
    compared = {name.removeprefix("~") for name in credited}
    unproved = {name[1:] for name in credited if name.startswith("~") and name[1:] not in credited}
    problems += [f"no row with the name {name} calls that function of PyTorch: OTHERWISE must say what it is compared with"
                 for name in sorted(unproved - listed(OTHERWISE))]
    problems += [f"{name} is in OTHERWISE, and a row calls it" for name in sorted(listed(OTHERWISE) - unproved)]
    names = torch_names((project / "docs" / "op_coverage.md").read_text())
    problems += [f"{name} of docs/op_coverage.md is not compared" for name in names if name not in compared | listed(TORCH)]
    differences = (project / "docs" / "differences.md").read_text()
    problems += [f"{name} is not in docs/differences.md" for name, line in headers.items()
                 if " differs=1" in line and f"`{name.replace('linalg.', 'linalg::')}`" not in differences]
    print("\n".join(problems))
    print(f"{len(functions)} functions, {len(headers)} rows, {sum(counts.values())} cases, "
          f"{len(set(names) & compared)} of {len(set(names))} names of PyTorch")
    return 1 if problems or len(functions) < 300 or len(headers) < 300 else 0


MANY = set("""multi_dot matrix_power cross bartlett blackman cosine exponential gaussian general_cosine general_hamming hamming hann
    kaiser nuttall fftfreq rfftfreq fftconvolve quantize dequantize fake_quantize choose_quantization pack_int4 unpack_int4
    quantize_weight quantized_weight quantized_matmul integer_matmul scaled_matmul""".split())
# Families of problems that each solver is given.
SOLVERS = {
    "root": "root_of_two root_of_springs", "bisect": "bisect", "minimize": "minimum_of_quartic minimum_of_rosenbrock",
    "least_squares": "least_squares", "odeint": "oscillator logistic_growth van_der_pol",
    "quad": "quad_of_wave quad_of_line quad_of_singular", "interp": "interp",
    "cubic_spline": "spline_not_a_knot spline_natural spline_clamped", "cg": "symmetric_system", "bicgstab": "any_system",
    "gmres": "any_system", "lobpcg": "largest_values",
}
LISTS = {
    "fft_values.hpp": [name.removeprefix("fft::") for name in FUNCTIONS[FOURIER].split()],
    "random_cases.hpp": FUNCTIONS[RANDOM].split(),
    "solver_cases.hpp": " ".join(SOLVERS.values()).split(),
}
FAMILIES = {"chebyshev_t", "chebyshev_u", "chebyshev_v", "chebyshev_w", "shifted_chebyshev_t", "shifted_chebyshev_u",
            "shifted_chebyshev_v", "shifted_chebyshev_w", "hermite_h", "hermite_he", "laguerre_l", "legendre_p"}

if __name__ == "__main__":
    sys.exit(main())
