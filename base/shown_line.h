// A line that another machine or program wrote, in our own output. What a worker writes is not
// ours: it passes as it is.
#ifndef HVDRAY_BASE_SHOWN_LINE_H_
#define HVDRAY_BASE_SHOWN_LINE_H_

#include <string>
#include <string_view>

namespace hvdray {

/// `line`, fit to be printed as ours: what ShownText() shows as bytes is shown so, but control
/// bytes are left out, colors with them; tabs stay, line ends become blanks. Called where such a
/// line comes in, once.
std::string ShownLine(std::string_view line);

}  // namespace hvdray

#endif  // HVDRAY_BASE_SHOWN_LINE_H_
