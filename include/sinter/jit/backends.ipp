// Back ends are named here and nowhere else.
#pragma once

#include <sinter/jit/backends.hpp>

#include <sinter/backend/reference/reference.hpp>
#include <sinter/base/context.hpp>
#include <sinter/tensor/device_memory.hpp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.hpp>
#endif
#ifdef SINTER_CUDA
#include <sinter/backend/cuda/driver.hpp>
#endif

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
inline std::vector<Backend*>* make_backends() {
  auto* list = new std::vector<Backend*>;
#ifndef SINTER_NO_X86
  list->push_back(make_x86_backend().release());
#endif
  list->push_back(make_reference_backend().release());
  return list;
}
}  // namespace jit_detail

SINTER_DECL const std::vector<Backend*>& host_backends() {
  static const std::vector<Backend*>* list = jit_detail::make_backends();
  return *list;
}

SINTER_DECL std::vector<Backend*> backends_for(std::string_view wanted) {
  const auto& all = host_backends();
  if (wanted.empty()) return all;
  std::vector<Backend*> list;
  for (Backend* backend : all)
    if (backend->name() == wanted) list.push_back(backend);
  if (list.empty() || list.back() != all.back()) list.push_back(all.back());
  return list;
}

SINTER_DECL std::vector<std::string> list_backends() {
  std::vector<std::string> names;
  for (const Backend* backend : host_backends()) names.emplace_back(backend->name());
  return names;
}

SINTER_DECL void check_backend(std::string_view wanted, Location where) {
  if (wanted.empty()) return;
  std::string known;
  for (const Backend* backend : host_backends()) {
    if (backend->name() == wanted) return;
    known += (known.empty() ? "" : ", ") + std::string(backend->name());
  }
  throw UserError("compile", "there is no back end '" + std::string(wanted) + "'", where, "this build has: " + known);
}

}  // namespace jit

SINTER_DECL DeviceMemory* find_device_memory(DeviceKind) { return nullptr; }

SINTER_NAMESPACE_END
