// The main function of the programs that generate a page of docs/.
#pragma once

#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

namespace mccl {

// Prints `page`, or with "--check FILE" compares it with the file. Exit status: 0 ok, 1 stale or
// not written, 2 usage.
inline int run_page_main(const char* program, const std::string& page, int argument_count,
                         char** arguments) {
  if (argument_count == 3 && std::string(arguments[1]) == "--check") {
    std::ifstream file(arguments[2]);
    std::ostringstream text;
    text << file.rdbuf();
    if (file && text.str() == page) return 0;
    std::cerr << arguments[2] << " is stale: run `make docs` and commit it\n";
    return 1;
  }
  if (argument_count != 1) {
    std::cerr << "usage: " << program << " [--check FILE]\n";
    return 2;
  }
  std::cout << page;
  return std::cout.flush() ? 0 : 1;
}

}  // namespace mccl
