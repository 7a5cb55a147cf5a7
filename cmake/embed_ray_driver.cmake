# Writes OUT, a C++ source with the bytes of the text file IN: cmake -DIN=... -DOUT=... -P this.
file(READ ${IN} text)
# A raw literal may not hold its own end; a compiler may refuse one of more than 64 KiB.
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
