# SPDX-License-Identifier: Apache-2.0
# Writes OUT, a C++ source with the bytes of the text file IN: cmake -DIN=... -DOUT=... -P this_file.
file(READ ${IN} text)
# A raw literal can't contain its own terminator; a compiler may reject one of more than 64 KiB.
string(LENGTH "${text}" size)
string(FIND "${text}" ")py\"" end)
if(size GREATER 60000 OR NOT end EQUAL -1)
  message(FATAL_ERROR "${IN} can't be a raw string literal")
endif()
file(WRITE ${OUT} "#include \"launcher/ray/job_package.h\"

namespace hvdray {

std::string_view RayDriverText() { return R\"py(${text})py\"; }

}  // namespace hvdray
")
