// Printing.
#pragma once

#include <sinter/dist/partition_report.hpp>

#include <ostream>

SINTER_NAMESPACE_BEGIN
namespace dist {

SINTER_DECL std::ostream& operator<<(std::ostream& out, const PartitionReport& report) { return out << report.text; }

}  // namespace dist
SINTER_NAMESPACE_END
