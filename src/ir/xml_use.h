// For which calls a file is meant, as both dialects say it. Internal to ir.
#pragma once

#include "ir/xml.h"
#include "ir/xml_document.h"

namespace mccl {

// The largest maxBytes; says "no limit" to every loader that does not allocate by it.
constexpr int64_t kMscclBytesMax = INT64_MAX;

// Read the attributes of document's root; what they do not say stays as it is in ProgramUse.
void read_mccl_use(XmlDocument* document, ProgramUse* use);
void read_msccl_use(XmlDocument* document, ProgramUse* use);

// InvalidArgument where no file can say `use`: an empty window, a number below zero, a topology
// that is no name.
Status check_use(const ProgramUse& use);

}  // namespace mccl
