// Generated CUDA C, run on the processor: a back end that compiles the text as C++ with the compiler of this machine.
// The threads of a block are fibers that take turns from one barrier or shuffle to the next, so a warp must reach
// those together, as generated kernels do, and a block its barriers; blocks run one after the other, but for those of
// a cluster, which run side by side, each on a thread of its own. Where the text begins with `#define WARPS_LAG 1`,
// each warp goes on one step later than the one before it after a barrier of the block: what the text does not order
// comes in an order that a GPU may have too. Fibers are made once for a text and switched by setjmp, since swapcontext
// asks the operating system for the signal mask each time.
#pragma once

#include "emulated_cuda_prelude.hpp"

#include <sinter/backend/cuda/source/source.hpp>
#include <sinter/runtime/backend.hpp>

#include <dlfcn.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace sinter_test {

/// A text compiled and loaded; kept for the rest of the process. Throws std::runtime_error where there is no compiler.
inline void* emulated_library(const std::string& source, const std::vector<std::string>& entries) {
  static auto* libraries = new std::map<std::string, void*>;
  void*& library = (*libraries)[source];
  if (library != nullptr) return library;
  const char *folder = std::getenv("TMPDIR"), *compiler = std::getenv("CXX");
  const std::string base = std::string(folder != nullptr ? folder : "/tmp") + "/sinter_emulated_" +
                           std::to_string(getpid()) + "_" + std::to_string(libraries->size());
  {
    std::ofstream file(base + ".cpp");
    if (source.find("#define IS_BRAIN 1") != std::string::npos) file << "#define IS_BRAIN 1\n";
    if (source.rfind("#define WARPS_LAG 1", 0) == 0) file << "#define WARPS_LAG 1\n";
    const std::string dims = "__cluster_dims__(";
    if (const std::size_t at = source.find(dims); at != std::string::npos)
      file << "#define CLUSTER " << std::stoi(source.substr(at + dims.size())) << "\n";
    if (const std::size_t at = source.find(" blocks run at once"); at != std::string::npos)
      file << "#define CLUSTER " << std::stoi(source.substr(source.rfind(' ', at - 1))) << "\n#define IN_STEP 0\n";
    file << emulated_cuda_prelude;
    std::istringstream lines(source);
    for (std::string line;
         std::getline(lines, line);) {  // the prelude (of lesser<float> and its like, the general form) has the rest
      const bool is_of_machine = line.find("asm(") != std::string::npos ||
                                 line.find("asm volatile(") != std::string::npos ||
                                 line.find("extern __shared__") != std::string::npos;
      if (!is_of_machine) file << line << "\n";
    }
    for (const std::string& entry : entries)
      file << "extern \"C\" void call_" << entry << "(const void* a) { " << entry << "(*(const Arguments*)a); }\n";
  }
  const std::string command = std::string(compiler != nullptr ? compiler : "c++") +
                              " -std=c++17 -O1 -w -fno-strict-aliasing -ffp-contract=off -shared -fPIC" +
                              " -U_FORTIFY_SOURCE " +  // a fortified libc refuses to jump to another stack
                              base + ".cpp -o " + base + ".so";
  const int status = std::system(command.c_str());
  if (status == 0) library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink((base + ".cpp").c_str());
  unlink((base + ".so").c_str());
  if (library == nullptr) throw std::runtime_error("the compiler refuses or is missing: " + command);
  return library;
}

inline bool has_host_compiler() {
  try {
    return emulated_library("struct Arguments {};\n", {}) != nullptr;
  } catch (const std::runtime_error&) { return false; }
}

class EmulatedCuda final : public sinter::Backend {
 public:
  /// `multiprocessors`: what the generator is told; 2 runs small sizes as large ones are. `algorithm`: of products,
  /// where it is open.
  explicit EmulatedCuda(int multiprocessors = 132, std::optional<sinter::cuda::GemmAlgorithm> algorithm = {})
      : algorithm_(algorithm) {
    target_.multiprocessors = multiprocessors;
  }
  /// Of the largest product that takes what computes its operands in.
  std::int64_t prologue_operations = sinter::cuda::generator_limits().prologue_operations;
  std::string_view name() const override { return "emulated cuda"; }
  std::string cache_key() const override { return "emulated cuda " + std::to_string(target_.multiprocessors); }
  sinter::Limits limits() const override {
    sinter::Limits limits = sinter::cuda::generator_limits();
    limits.prologue_operations = prologue_operations;
    return limits;
  }
  std::shared_ptr<const sinter::Executable> compile(const sinter::Kernel& kernel, const sinter::Schedule& schedule,
                                                    std::string* why) override {
    auto generated = sinter::cuda::generate(kernel, schedule, target_, why);
    return generated ? std::make_shared<const Compiled>(std::move(generated), algorithm_) : nullptr;
  }

 private:
  using Algorithm = std::optional<sinter::cuda::GemmAlgorithm>;
  class Run final : public sinter::Launch {
   public:
    Run(std::shared_ptr<const sinter::cuda::GeneratedKernel> kernel, const sinter::BoundGeometry& geometry,
        Algorithm algorithm)
        : kernel_(std::move(kernel)), geometry_(geometry), algorithm_(algorithm) {}
    void run(void* const* operands) override {
      sinter::cuda::LaunchList list = kernel_->bind(geometry_, 0, true, algorithm_);
      for (const sinter::cuda::GpuLaunch& launch : list.launches)
        for (const sinter::cuda::ParameterPatch& patch : launch.patches)
          if (list.needs_alignment && patch.kind == Kind::operand &&
              reinterpret_cast<std::uintptr_t>(operands[patch.index]) % 16 != 0)
            return run(kernel_->bind(geometry_, 0, false, algorithm_), operands);
      run(std::move(list), operands);
    }

   private:
    using Kind = sinter::cuda::ParameterPatch::Kind;
    void run(sinter::cuda::LaunchList list, void* const* operands) {
      if (list.launches.empty()) return;
      void* library = emulated_library(list.source, list.entries);
      std::vector<char> workspace(list.workspace_bytes + 256, 0x5A);
      char* const start = workspace.data() + (256 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 256);
      std::int64_t fault[4] = {};
      using Function = void (*)(const void*);
      const auto launch_all = reinterpret_cast<void (*)(Function, const void*, const unsigned*, unsigned, unsigned)>(
          dlsym(library, "emulated_launch"));
      for (sinter::cuda::GpuLaunch& launch : list.launches) {
        for (const sinter::cuda::ParameterPatch& patch : launch.patches) {
          const char* const base = patch.kind == Kind::operand     ? static_cast<const char*>(operands[patch.index])
                                   : patch.kind == Kind::workspace ? start
                                                                   : reinterpret_cast<const char*>(fault);
          launch.parameters[patch.at / 8] =
              patch.kind == Kind::tag ? 1 : reinterpret_cast<std::uintptr_t>(base + patch.byte_offset);
        }
        launch_all(reinterpret_cast<Function>(dlsym(library, ("call_" + list.entries[launch.entry]).c_str())),
                   launch.parameters.data(), launch.grid.data(), launch.block[0], launch.shared_bytes);
      }
      if (fault[0] != 0)
        throw sinter::IndexError(
            "emulated cuda",
            "index " + std::to_string(fault[1]) + " is out of range for an axis of extent " + std::to_string(fault[2]));
    }
    std::shared_ptr<const sinter::cuda::GeneratedKernel> kernel_;
    sinter::BoundGeometry geometry_;
    Algorithm algorithm_;
  };
  class Compiled final : public sinter::Executable {
   public:
    Compiled(std::shared_ptr<const sinter::cuda::GeneratedKernel> kernel, Algorithm algorithm)
        : kernel_(std::move(kernel)), algorithm_(algorithm) {}
    std::unique_ptr<sinter::Launch> bind(const sinter::BoundGeometry& geometry) const override {
      return std::make_unique<Run>(kernel_, geometry, algorithm_);
    }

   private:
    std::shared_ptr<const sinter::cuda::GeneratedKernel> kernel_;
    Algorithm algorithm_;
  };
  Algorithm algorithm_;
  sinter::cuda::Target target_;
};

}  // namespace sinter_test
