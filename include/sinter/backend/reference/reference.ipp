// The Backend and Executable faces of the interpreter.
#pragma once

#include <sinter/backend/reference/reference.hpp>

#include <sinter/backend/reference/interpreter.hpp>

SINTER_NAMESPACE_BEGIN

namespace reference_detail {
class ReferenceExecutable final : public Executable {
 public:
  explicit ReferenceExecutable(const Kernel& kernel)
      : program_(std::make_shared<const Program>(make_program(kernel))) {}
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
    return std::make_unique<Interpreter>(program_, geometry);
  }
  std::string listing() const override { return program_->text(); }

 private:
  std::shared_ptr<const Program> program_;  // shared with the launches, which may live longer
};
}  // namespace reference_detail

SINTER_DECL Limits ReferenceBackend::limits() const {
  return {.max_operands = 64, .max_accesses = 256, .max_body = 1024, .max_reduced_axes = max_axes};
}

SINTER_DECL std::shared_ptr<const Executable> ReferenceBackend::compile(const Kernel& kernel, const Schedule&,
                                                                        std::string*) {
  return std::make_shared<const reference_detail::ReferenceExecutable>(kernel);
}

SINTER_DECL std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

SINTER_NAMESPACE_END
