#include "device/cpu_reduce.h"

#include "base/check.h"
#include "base/dtype.h"

namespace mccl {

CpuReduceTable cpu_reduce_table() {
  CpuReduceTable table;
  table.rows.resize(all_data_types().size());
  for (const ReduceRows& family :
       {cpu_reduce_floats(), cpu_reduce_halves(), cpu_reduce_integers()}) {
    MCCL_CHECK(table.target == 0 || table.target == family.target);
    table.target = family.target;
    for (const ReduceRow& row : family.rows) table.rows[static_cast<size_t>(row.dtype)] = &row;
  }
  return table;
}

}  // namespace mccl
