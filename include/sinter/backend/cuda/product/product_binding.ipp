// From the GEMM algorithms that are open to the list of the one that is taken.
#pragma once

#include <sinter/backend/cuda/product/product_binding.hpp>

#include <sinter/backend/cuda/cuda.hpp>
#include <sinter/backend/cuda/device/ahead.hpp>
#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/product/cublaslt_api.hpp>
#include <sinter/backend/cuda/product/measure.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/base/timeline.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

inline std::optional<GemmAlgorithm> forced_algorithm(ProductPolicy policy) {
  switch (policy) {
    case ProductPolicy::measured:
    case ProductPolicy::by_rule: return {};
    case ProductPolicy::fma: return GemmAlgorithm::fma;
    case ProductPolicy::tensor_cores: return GemmAlgorithm::tensor_cores;
    case ProductPolicy::wgmma: return GemmAlgorithm::wgmma;
    case ProductPolicy::library: return GemmAlgorithm::library;
    case ProductPolicy::library_then_kernel: return GemmAlgorithm::library_then_kernel;
  }
  return {};
}

/// Keys name the kind of device: ranks on GPUs of one kind take what the first of them has measured, so that none waits
/// for another's slower algorithm, and all have the same last digits.
SINTER_DECL ProductChoices& product_choices() {
  return process_object([] { return new ProductChoices(DiskCache::standard()); });
}

class ProductBinder {
 public:
  ProductBinder(Gpu& gpu, const Kernel& kernel, const StepBinding& binding)
      : gpu_(gpu), kernel_(kernel), binding_(binding) {}

  ReadyList bind(std::optional<ProductChoice>& choice) {
    constexpr bool is_aligned = true;
    problem_ = binding_.kernel->product(binding_.geometry, binding_.host_operands, is_aligned, false);
    if (problem_.algorithms.empty()) return ready({});
    gpu_.enter();
    const ProductPolicy policy = product_policy();
    const bool is_measured = policy == ProductPolicy::measured && problem_.operations >= least_measured_operations;
    // The library is opened, which takes longer than all else here, where it may compute this product.
    if (is_measured) choice = product_choices().find(key());
    if (is_measured && !choice && problem_.may_use_library && !is_cublaslt_open()) compile_while_library_opens();
    const std::optional<GemmAlgorithm> forced = forced_algorithm(policy);
    const bool is_known = choice ? !is_of_library(choice->algorithm)
                                 : forced && problem_.may_use_library && is_open(*forced, problem_.algorithms);
    if (!is_known) problem_ = binding_.kernel->product(binding_.geometry, binding_.host_operands, is_aligned, true);
    if (choice && is_of_library(choice->algorithm) && !is_of_this_library(*choice)) {
      product_choices().drop(key());
      choice.reset();
    }
    if (problem_.algorithms.size() < 2 && !is_known) return choice.reset(), ready({});
    std::vector<GemmAlgorithm> algorithms = problem_.algorithms;
    std::string why = policy == ProductPolicy::by_rule ? "by rule" : "by rule: too small to measure";
    if (forced) {
      const auto at = std::find(algorithms.begin(), algorithms.end(), *forced);
      why = at != algorithms.end() ? "by SINTER_CUDA_PRODUCT or set_product_policy()"
                                   : "by rule: " + std::string(name_of(*forced)) + " is not open here";
      if (at != algorithms.end()) std::rotate(algorithms.begin(), at, at + 1);
    } else if (is_measured) {
      if (!choice) return measured(product_choices(), choice);
      algorithms.insert(algorithms.begin(),
                        choice->algorithm);  // the rest, in case an entry is of another machine after all
      why.clear();
    }
    return first_that_works(algorithms, choice, why);
  }

 private:
  static bool is_open(GemmAlgorithm algorithm, const std::vector<GemmAlgorithm>& all) {
    return std::find(all.begin(), all.end(), algorithm) != all.end();
  }
  ReadyList ready(std::optional<GemmAlgorithm> algorithm) const {
    return ReadyList(
        gpu_, binding_.kernel->bind(binding_.geometry, binding_.host_operands, true, algorithm, binding_.is_grouped));
  }
  static std::vector<std::string> library_algorithms(const ReadyList& list, int most) {
    try {
      return list.list.call->algorithms(most);
    } catch (const DeviceError& error) {  // it cannot even be set up: another algorithm can
      if (is_logged("autotune")) note("autotune", error.what());
      return {};
    }
  }
  /// May the choice of an earlier process be followed? Not where the library is of another version, or not there. That
  /// an algorithm does not fit these extents is another matter: sizes of a class share one choice.
  bool is_of_this_library(const ProductChoice& choice) const {
    if (!is_open(choice.algorithm, problem_.algorithms)) return false;
    return choice.library_algorithm.empty() || choice.library_algorithm.starts_with(cublaslt_algorithm_mark());
  }
  /// Can this list run? By that algorithm of the library, where it is one and fits, else by the library's first. The
  /// library is asked for its own only then: the first question of a process takes 80 ms.
  static bool works(ReadyList& list, const std::string& library_algorithm) {
    if (list.list.call == nullptr) return true;
    try {
      if (!library_algorithm.empty() && list.list.call->use(library_algorithm)) return true;
    } catch (const DeviceError& error) {
      if (is_logged("autotune")) note("autotune", error.what());
      return false;
    }
    return !library_algorithms(list, 1).empty();
  }

  ReadyList first_that_works(const std::vector<GemmAlgorithm>& algorithms, std::optional<ProductChoice>& choice,
                             const std::string& why) const {
    for (GemmAlgorithm algorithm : algorithms) {
      ReadyList list = ready(algorithm);
      const bool is_chosen = choice && choice->algorithm == algorithm;
      if (!works(list, is_chosen ? choice->library_algorithm : std::string())) continue;
      const bool is_first = algorithm == algorithms.front();
      if (!is_chosen)
        choice = ProductChoice{
            algorithm,
            {},
            is_first ? why : "by rule: " + std::string(name_of(algorithms.front())) + " does not work here"};
      return list;
    }
    throw InternalError("no GEMM algorithm is open for a product");
  }

  /// Without the library's version: to ask for it would open the library. Its algorithms name it.
  std::string key() const {
    return "product " SINTER_VERSION_STRING " 5 nvrtc " + std::to_string(nvrtc_version()) + " driver " +
           std::to_string(driver_status().version) + " " + gpu_.name() + " " +
           std::to_string(gpu_.target().multiprocessors) + " " + gpu_.target().architecture() + "\n" + problem_.text;
  }

  /// The generator's own preference is measured whatever the library can do.
  void compile_while_library_opens() const {
    open_cublaslt_ahead();
    static_cast<void>(compiled(problem_.algorithms.front()));
  }

  /// All that may win are compiled first, beside each other and beside other kernels; then they are timed, one product
  /// at a time.
  ReadyList measured(ProductChoices& choices, std::optional<ProductChoice>& choice) const {
    const std::vector<GemmAlgorithm>& algorithms = problem_.worth_measuring;
    std::vector<std::unique_ptr<ReadyList>> lists(algorithms.size());
    std::vector<std::vector<std::string>> ways(algorithms.size());  // of the library to compute it, or "" of a kernel
    const auto prepare = [&](std::size_t i) {
      constexpr int most_algorithms = 4;
      lists[i] = compiled(algorithms[i]);
      if (!lists[i]) return;
      gpu_.enter();
      ways[i] = lists[i]->list.call ? library_algorithms(*lists[i], most_algorithms) : std::vector<std::string>{""};
    };
    constexpr double compile_nanoseconds = 1e8;
    parallel_for(static_cast<std::int64_t>(algorithms.size()), compile_nanoseconds,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (auto i = as_index(begin); i < as_index(end); ++i)
                     if (algorithms[i] != GemmAlgorithm::library_then_kernel) prepare(i);
                 });
    std::vector<ProductCandidate> candidates;
    std::vector<ReadyList*> list_of;
    bool has_library = false;
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      // One pass is faster than two: what follows is left to a kernel only where the library cannot do it. This
      // algorithm comes last.
      if (algorithms[i] == GemmAlgorithm::library_then_kernel && !has_library) prepare(i);
      if (!lists[i]) continue;
      const bool is_call = lists[i]->list.call != nullptr;
      has_library |= is_call && !ways[i].empty();
      for (std::size_t a = 0; a < ways[i].size(); ++a) {
        candidates.push_back({algorithms[i], ways[i][a],
                              std::string(name_of(algorithms[i])) + (is_call ? " " + std::to_string(a + 1) : "")});
        list_of.push_back(lists[i].get());
      }
    }
    if (candidates.size() == 1) {
      ReadyList only = first_that_works({candidates[0].algorithm}, choice, "by rule: nothing else may be faster");
      // Kept, since another size of this kind may have more candidates.
      choices.remember(key(), *choice);
      return only;
    }
    if (candidates.empty()) return first_that_works(problem_.algorithms, choice, "by rule: nothing could be measured");
    const TimelineSpan span("compile", "measure a product");
    choice = choices.choose(key(), kernel_text(), candidates,
                            [&](std::span<const ProductCandidate> all) { return times(all, list_of); });
    for (std::size_t i = 0; i < algorithms.size(); ++i) {
      if (lists[i] && algorithms[i] == choice->algorithm && works(*lists[i], choice->library_algorithm))
        return std::move(*lists[i]);
    }
    return first_that_works(problem_.algorithms, choice, "by rule");
  }

  /// Null: it does not compile. If no algorithm does, the one that is bound then throws.
  std::unique_ptr<ReadyList> compiled(GemmAlgorithm algorithm) const {
    try {
      return std::make_unique<ReadyList>(ready(algorithm));
    } catch (const Error& error) {
      if (is_logged("autotune"))
        note("autotune", std::string(name_of(algorithm)) + " cannot be measured: " + error.what());
      return nullptr;
    }
  }

  std::vector<double> times(std::span<const ProductCandidate> candidates,
                            const std::vector<ReadyList*>& list_of) const {
    gpu_.enter();
    std::size_t workspace = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      LibraryCall* const call = list_of[i]->list.call.get();
      if (call != nullptr) call->use(candidates[i].library_algorithm);
      workspace = std::max(workspace, list_of[i]->list.workspace_bytes + (call != nullptr ? call->scratch_bytes() : 0));
    }
    return measure(gpu_, kernel_, binding_, workspace, candidates.size(), [&](std::size_t i) -> ReadyList& {
      ReadyList& list = *list_of[i];
      if (list.list.call && !list.list.call->use(candidates[i].library_algorithm))
        throw std::runtime_error("the library's algorithm does not fit");
      return list;
    });
  }

  std::string kernel_text() const {
    std::string text = "product of";
    for (int a = 0; a < kernel_.rank(); ++a)
      text += (a == 0 ? " " : "x") + std::to_string(binding_.geometry.extent[as_index(a)]);
    return text + " on cuda:" + std::to_string(gpu_.index());
  }

  Gpu& gpu_;
  const Kernel& kernel_;
  const StepBinding& binding_;
  GemmProblem problem_;
};

SINTER_DECL ReadyList bind_product(Gpu& gpu, const Kernel& kernel, const StepBinding& binding,
                                   std::optional<ProductChoice>& choice) {
  return ProductBinder(gpu, kernel, binding).bind(choice);
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
