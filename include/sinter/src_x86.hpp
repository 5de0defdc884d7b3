// Every definition of the x86 back end. Included by sinter.hpp when header-only, else by one translation unit: see
// src.hpp.
#pragma once
#include <sinter/base/config.hpp>  // knows whether this is an x86-64 processor
// backend/x86
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.ipp>
#include <sinter/backend/x86/code_memory.ipp>
#include <sinter/backend/x86/contraction.ipp>
#include <sinter/backend/x86/contraction_epilogue.ipp>
#include <sinter/backend/x86/contraction_micro.ipp>
#include <sinter/backend/x86/contraction_pack.ipp>
#include <sinter/backend/x86/contraction_plan.ipp>
#include <sinter/backend/x86/contraction_vector.ipp>
#include <sinter/backend/x86/emitter.ipp>
#include <sinter/backend/x86/loop.ipp>
#include <sinter/backend/x86/loop_body.ipp>
#include <sinter/backend/x86/loop_chain.ipp>
#include <sinter/backend/x86/loop_columns.ipp>
#include <sinter/backend/x86/loop_driver.ipp>
#include <sinter/backend/x86/loop_generator.ipp>
#include <sinter/backend/x86/loop_plan.ipp>
#include <sinter/backend/x86/loop_short_rows.ipp>
#include <sinter/backend/x86/lower.ipp>
#include <sinter/backend/x86/math.ipp>
#include <sinter/backend/x86/register_allocator.ipp>
#include <sinter/backend/x86/vector_builder.ipp>
#include <sinter/backend/x86/vector_memory.ipp>
#include <sinter/backend/x86/vector_remainder.ipp>
#endif
