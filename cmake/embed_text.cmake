# SPDX-License-Identifier: Apache-2.0
# Writes OUT, a C++ source that defines the function NAME of the header HEADER, which returns the text of the file IN:
# cmake -DIN=... -DOUT=... -DNAME=... -DHEADER=... -P this_file.
file(READ ${IN} text)
# A raw literal can't contain its own terminator; a compiler may reject one of more than 64 KiB.
string(LENGTH "${text}" size)
string(FIND "${text}" ")py\"" end)
if(size GREATER 60000 OR NOT end EQUAL -1)
  message(FATAL_ERROR "${IN} can't be a raw string literal")
endif()
file(WRITE ${OUT} "#include \"${HEADER}\"

namespace hvdray {

std::string_view ${NAME}() { return R\"py(${text})py\"; }

}  // namespace hvdray
")
