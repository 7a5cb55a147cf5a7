# SPDX-License-Identifier: Apache-2.0
# Writes OUT, a C++ source that defines the function NAME of the header HEADER, which returns the text of the file IN:
# cmake -DIN=... -DOUT=... -DNAME=... -DHEADER=... [-DJOINED=JOINED] -P this_file.
file(READ ${IN} text)
if(JOINED)
  # One line of shell, without comments and indentation: csh, which may have to pass it on, quotes no newline.
  string(REGEX REPLACE "(^|\n)( *#[^\n]*\n)+" "\\1" text "${text}")
  string(REGEX REPLACE "\n +" "\n" text "${text}")
  string(REGEX REPLACE "(^|\n)\n+" "\\1" text "${text}")
  # What would take the rest of the script with it, without an error anywhere.
  if(text MATCHES "[ ;]#[^\n]*|<<[^\n]*|[^\n]*\\\\\n")
    message(FATAL_ERROR "${IN}: '${CMAKE_MATCH_0}' can't be part of one line")
  endif()
  string(REGEX REPLACE "([;{(|&]|[ \n](then|do|else|in))\n" "\\1 " text "${text}")
  string(REGEX REPLACE "\n$" "" text "${text}")
  string(REPLACE "\n" "; " text "${text}")
endif()
# A raw literal can't contain its own terminator; a compiler may reject one of more than 64 KiB.
string(LENGTH "${text}" size)
string(FIND "${text}" ")text\"" end)
if(size GREATER 60000 OR NOT end EQUAL -1)
  message(FATAL_ERROR "${IN} can't be a raw string literal")
endif()
file(WRITE ${OUT} "#include \"${HEADER}\"

namespace hvdray {

std::string_view ${NAME}() { return R\"text(${text})text\"; }

}  // namespace hvdray
")
