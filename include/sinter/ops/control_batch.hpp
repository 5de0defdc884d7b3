// Control flow over a batch: the same nodes on batched bodies. Where examples go different ways, all branches are
// computed and chosen from, and a loop goes on until the last example is done.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/op.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

void batch_switch(const BatchArgs& args, BatchedList& results);
void batch_while(const BatchArgs& args, BatchedList& results);
void batch_scan(const BatchArgs& args, BatchedList& results);

}  // namespace ops_detail
SINTER_NAMESPACE_END
