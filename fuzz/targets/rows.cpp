// Rows of columns as lines of text, against printf.
// Covers: formats/rows_text.hpp
#include "formats/rows_text.hpp"

#include "inputs.hpp"
#include "mutate.hpp"

namespace {

int32_t draw_integer(fuzz::Draw& draw) {
  return draw.ConsumeBool() ? draw.ConsumeIntegral<int32_t>() : draw.ConsumeIntegralInRange<int32_t>(-20, 2000);
}

double draw_number(fuzz::Draw& draw) {
  switch (draw.ConsumeIntegralInRange<int>(0, 4)) {
    case 0:
      return draw_integer(draw) / 8.0;
    case 1:
      return draw_integer(draw) * 1e-3;
    case 2:
      return draw_integer(draw) * 1e12;
    default: {
      uint64_t bits = draw.ConsumeIntegral<uint64_t>();  // any number, infinities and NaN among them
      double number;
      std::memcpy(&number, &bits, sizeof(number));
      return number;
    }
  }
}

struct Column {
  std::vector<int32_t> integer;
  std::vector<double> number;
  std::vector<int64_t> begin, end;
  std::string letters;
};

// A column; what it prints is added to the rows of text.
ninja::TextColumn draw_column(fuzz::Draw& draw, Column& column, std::vector<std::string>& text) {
  ninja::TextColumn made{};
  made.kind = static_cast<ninja::TextColumn::Kind>(draw.ConsumeIntegralInRange<int>(0, 3));
  made.separator = "_ ,"[draw.ConsumeIntegralInRange<int>(0, 2)];
  made.may_lack = draw.ConsumeBool();
  if (made.kind == ninja::TextColumn::kNames) {
    for (int name = draw.ConsumeIntegralInRange<int>(1, 4); name > 0; --name) {
      const std::string letters = draw.ConsumeRandomLengthString(20);
      column.begin.push_back(static_cast<int64_t>(column.letters.size()));
      column.letters += letters;
      column.end.push_back(static_cast<int64_t>(column.letters.size()));
    }
  }
  for (std::string& row : text) {
    char printed[64];
    switch (made.kind) {
      case ninja::TextColumn::kIntegers:
        column.integer.push_back(draw_integer(draw));
        row += "\t" + std::to_string(column.integer.back());
        break;
      case ninja::TextColumn::kNumbers:
        column.number.push_back(draw_number(draw));
        std::snprintf(printed, sizeof(printed), "%.7g", column.number.back());
        row += std::string("\t") + (std::isnan(column.number.back()) ? "nan" : printed);
        break;
      case ninja::TextColumn::kNames: {
        const auto name = draw.ConsumeIntegralInRange<size_t>(0, column.begin.size() - 1);
        column.integer.push_back(static_cast<int32_t>(name));
        row += "\t" + column.letters.substr(column.begin[name], column.end[name] - column.begin[name]);
        break;
      }
      default:
        column.begin.push_back(static_cast<int64_t>(column.integer.size()));
        const int count = draw.ConsumeIntegralInRange<int>(0, draw.ConsumeBool() ? 3 : 60);
        if (count > 0 || !made.may_lack) row += '\t';
        for (int at = 0; at < count; ++at) {
          column.integer.push_back(draw_integer(draw));
          row += (at > 0 ? std::string(1, made.separator) : "") + std::to_string(column.integer.back());
        }
        column.end.push_back(static_cast<int64_t>(column.integer.size()));
    }
  }
  return made;
}

}  // namespace

FUZZ_TARGET(mutate_drawn) {
  const std::string prefix = draw.ConsumeRandomLengthString(30);
  std::vector<std::string> text(draw.ConsumeIntegralInRange<size_t>(0, 6), prefix);
  std::vector<Column> held(draw.ConsumeIntegralInRange<size_t>(0, 4));
  std::vector<std::unique_ptr<fuzz::Array<int32_t>>> integer;
  std::vector<std::unique_ptr<fuzz::Array<double>>> number;
  std::vector<std::unique_ptr<fuzz::Array<int64_t>>> place;
  std::vector<std::unique_ptr<fuzz::Bytes>> letters;
  std::vector<ninja::TextColumn> columns;
  for (Column& column : held) {
    columns.push_back(draw_column(draw, column, text));
    columns.back().integer = integer.emplace_back(std::make_unique<fuzz::Array<int32_t>>(column.integer))->data();
    columns.back().number = number.emplace_back(std::make_unique<fuzz::Array<double>>(column.number))->data();
    columns.back().begin = place.emplace_back(std::make_unique<fuzz::Array<int64_t>>(column.begin))->data();
    columns.back().end = place.emplace_back(std::make_unique<fuzz::Array<int64_t>>(column.end))->data();
    columns.back().letters = letters.emplace_back(std::make_unique<fuzz::Bytes>(column.letters))->begin();
  }
  const fuzz::Bytes name(prefix);
  const auto first = draw.ConsumeIntegralInRange<size_t>(0, text.size());
  std::string expected;
  for (size_t row = first; row < text.size(); ++row) expected += text[row] + "\n";
  ninja::Output output;
  ninja::print_rows({name.begin(), prefix.size()}, columns, static_cast<int64_t>(first),
                    static_cast<int64_t>(text.size()), output);
  fuzz::expect(std::string(output.data(), static_cast<size_t>(output.size())) == expected,
               "rows are as printf prints them");
}
