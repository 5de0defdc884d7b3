// Every definition of the x86 back end. Included by sinter.hpp when header-only, else by one translation unit: see
// src.hpp.
#pragma once
#include <sinter/base/config.hpp>  // knows whether this is an x86-64 processor
// backend/x86
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.ipp>
#include <sinter/backend/x86/contraction/contraction.ipp>
#include <sinter/backend/x86/contraction/epilogue.ipp>
#include <sinter/backend/x86/contraction/micro.ipp>
#include <sinter/backend/x86/contraction/pack.ipp>
#include <sinter/backend/x86/contraction/plan.ipp>
#include <sinter/backend/x86/contraction/vector.ipp>
#include <sinter/backend/x86/machine/assembler.ipp>
#include <sinter/backend/x86/machine/code_memory.ipp>
#include <sinter/backend/x86/machine/emitter.ipp>
#include <sinter/backend/x86/machine/listing.ipp>
#include <sinter/backend/x86/machine/lower.ipp>
#include <sinter/backend/x86/machine/register_allocator.ipp>
#include <sinter/backend/x86/math/math.ipp>
#include <sinter/backend/x86/nest/body.ipp>
#include <sinter/backend/x86/nest/chain.ipp>
#include <sinter/backend/x86/nest/columns.ipp>
#include <sinter/backend/x86/nest/driver.ipp>
#include <sinter/backend/x86/nest/folds.ipp>
#include <sinter/backend/x86/nest/generator.ipp>
#include <sinter/backend/x86/nest/guarded.ipp>
#include <sinter/backend/x86/nest/loop.ipp>
#include <sinter/backend/x86/nest/narrow_memory.ipp>
#include <sinter/backend/x86/nest/prepare.ipp>
#include <sinter/backend/x86/nest/scans.ipp>
#include <sinter/backend/x86/nest/short_rows.ipp>
#include <sinter/backend/x86/nest/vector_builder.ipp>
#include <sinter/backend/x86/nest/vector_lanes.ipp>
#include <sinter/backend/x86/nest/vector_memory.ipp>
#include <sinter/backend/x86/nest/vector_remainder.ipp>
#include <sinter/backend/x86/scatter/scatter.ipp>
#endif
