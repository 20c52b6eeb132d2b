// Spans of a lattice that sound like strings of phones, compared with enumerating all spans.
// Covers: context/augment.hpp
#include "context/augment.hpp"

#include "lattices.hpp"
#include "mutate.hpp"
#include "paths.hpp"

namespace {

struct Strings {
  std::vector<int64_t> begin{0};
  std::vector<int32_t> phone;

  void draw_one(fuzz::Draw& draw, int least, int most, int32_t num_phones) {
    for (int left = draw.ConsumeIntegralInRange<int>(least, most); left > 0; --left) {
      phone.push_back(draw.ConsumeIntegralInRange<int32_t>(0, num_phones - 1));
    }
    begin.push_back(static_cast<int64_t>(phone.size()));
  }
  std::vector<int32_t> at(int64_t string) const {
    return {phone.begin() + begin[string], phone.begin() + begin[string + 1]};
  }
};

struct Problem {
  ninja::Arcs arcs;
  std::vector<int32_t> unit;
  std::vector<int64_t> first{0};
  Strings sounds, strings;
  std::vector<float> substitution, insertion, deletion;
  ninja::SpanLimits limits;

  double distance(const std::vector<int32_t>& said, const std::vector<int32_t>& heard) const {
    const size_t count = insertion.size();
    std::vector<double> row(said.size() + 1);
    for (size_t at = 1; at < row.size(); ++at) row[at] = row[at - 1] + deletion[said[at - 1]];
    for (const int32_t phone : heard) {
      double before = row[0];
      row[0] += insertion[phone];
      for (size_t at = 1; at < row.size(); ++at) {
        const double both = before + substitution[said[at - 1] * count + phone];
        before = row[at];
        row[at] = std::min({both, row[at] + insertion[phone], row[at - 1] + deletion[said[at - 1]]});
      }
    }
    return row.back();
  }

  // The least distance of a string to what arcs in a row may sound like, the last of them to a sound.
  double distance(const std::vector<int32_t>& said, const int64_t* arc, size_t count,
                  std::vector<int32_t>& heard) const {
    if (count == 0) return distance(said, heard);
    double least = INFINITY;
    for (int64_t sound = first[unit[*arc]]; sound < first[unit[*arc] + 1]; ++sound) {
      const std::vector<int32_t> phones = sounds.at(sound);
      if (count == 1 && phones.empty()) continue;
      heard.insert(heard.end(), phones.begin(), phones.end());
      least = std::min(least, distance(said, arc + 1, count - 1, heard));
      heard.resize(heard.size() - phones.size());
    }
    return least;
  }
  double distance(int64_t string, const std::vector<int64_t>& path) const {
    std::vector<int32_t> heard;
    return distance(strings.at(string), path.data(), path.size(), heard);
  }
};

// The lattice's costs as the twin sees them.
struct Excess {
  explicit Excess(const Problem& problem)
      : problem(problem), until(problem.arcs.num_states, INFINITY), rest(problem.arcs.num_states, INFINITY) {
    const ninja::Arcs& arcs = problem.arcs;
    until[0] = 0;
    for (int64_t state = 0; state < arcs.num_states; ++state) {
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        until[arcs.dst[arc]] = std::min(until[arcs.dst[arc]], until[state] + cost(arc));
      }
    }
    for (int64_t state = arcs.num_states - 1; state >= 0; --state) {
      if (ninja::is_final(arcs, state)) {
        rest[state] = arcs.final_graph[state] + problem.limits.acoustic_scale * arcs.final_acoustic[state];
      }
      for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
        rest[state] = std::min(rest[state], cost(arc) + rest[arcs.dst[arc]]);
      }
    }
  }
  double cost(int64_t arc) const {
    return problem.arcs.graph[arc] + problem.limits.acoustic_scale * problem.arcs.acoustic[arc];
  }
  double of(int64_t start, const std::vector<int64_t>& path) const {
    double sum = until[start] - rest[0];
    for (const int64_t arc : path) sum += cost(arc);
    return sum + rest[path.empty() ? start : problem.arcs.dst[path.back()]];
  }

  const Problem& problem;
  std::vector<double> until, rest;
};

struct Span {
  int64_t start, end;
  std::vector<int64_t> path;
  double excess;
};

// Every span whose arcs each lie within the beam; `most` bounds their number.
bool all_spans(const Problem& problem, const Excess& excess, int64_t start, int64_t state, std::vector<int64_t>& path,
               size_t most, std::vector<Span>& found) {
  const ninja::Arcs& arcs = problem.arcs;
  for (int64_t arc = arcs.arc_begin[state]; arc < arcs.arc_begin[state + 1]; ++arc) {
    const bool sounds = problem.first[problem.unit[arc]] < problem.first[problem.unit[arc] + 1];
    const double alone = excess.of(state, {arc});
    if (!sounds || !(alone <= problem.limits.beam)) continue;
    path.push_back(arc);
    if (found.size() >= most) return false;
    found.push_back({start, arcs.dst[arc], path, excess.of(start, path)});
    if (!all_spans(problem, excess, start, arcs.dst[arc], path, most, found)) return false;
    path.pop_back();
  }
  return true;
}

void expect_spans(const Problem& problem, const ninja::Spans& spans) {
  const Excess excess(problem);
  const ninja::Arcs& arcs = problem.arcs;
  const double weight = problem.limits.weight;
  std::vector<std::vector<double>> total(problem.strings.begin.size() - 1,
                                         std::vector<double>(arcs.num_states, INFINITY));  // found, of each end
  for (size_t span = 0; span < spans.string.size(); ++span) {
    const std::vector<int64_t> path(spans.arc.begin() + spans.arc_begin[span],
                                    spans.arc.begin() + spans.arc_begin[span + 1]);
    int64_t state = spans.start[span];
    for (const int64_t arc : path) {
      fuzz::expect(arc >= arcs.arc_begin[state] && arc < arcs.arc_begin[state + 1], "the arcs of a span are a path");
      state = arcs.dst[arc];
    }
    fuzz::expect(state == spans.end[span] && !path.empty(), "a span ends where it says");
    const double distance = problem.distance(spans.string[span], path), over = excess.of(spans.start[span], path);
    fuzz::expect(fuzz::near(over, spans.excess[span]), "a span's excess is that of the best path through it");
    fuzz::expect(fuzz::near(distance, spans.distance[span]), "a span is as far as its string from its sounds");
    fuzz::expect(over <= problem.limits.beam + 1e-3, "a span lies within the beam");
    double& best = total[spans.string[span]][state];
    fuzz::expect(best == INFINITY, "of the spans of a string that end in a state there is one");
    best = over + weight * distance;
  }
  std::vector<Span> every;
  std::vector<int64_t> path;
  for (int64_t state = 0; state < arcs.num_states; ++state) {
    if (!(excess.of(state, {}) <= problem.limits.beam + 1e-3)) continue;
    path.clear();
    if (!all_spans(problem, excess, state, state, path, 300, every)) return;
  }
  const bool bounded = problem.limits.max_spans < 1000;
  for (size_t string = 0; string < total.size(); ++string) {
    const auto length = static_cast<double>(problem.strings.at(static_cast<int64_t>(string)).size());
    std::vector<double> least(arcs.num_states, INFINITY), surely(arcs.num_states, INFINITY);
    for (const Span& span : every) {
      const double distance = problem.distance(static_cast<int64_t>(string), span.path);
      if (distance == INFINITY) continue;
      const double sum = span.excess + weight * distance;
      least[span.end] = std::min(least[span.end], sum);
      const bool within =
          span.excess <= problem.limits.beam - 1e-3 && distance <= problem.limits.max_distance * length - 1e-3;
      if (!within) surely[span.end] = std::min(surely[span.end], sum);  // what may push a better one out
    }
    for (int64_t state = 0; state < arcs.num_states; ++state) {
      if (total[string][state] < INFINITY) {
        fuzz::expect(total[string][state] <= least[state] + 1e-3 * (1 + std::abs(least[state])), "no span is better");
      } else if (!bounded && least[state] < INFINITY) {
        fuzz::expect(surely[state] <= least[state] + 1e-3 * (1 + std::abs(least[state])), "the best span is found");
      }
    }
  }
}

}  // namespace

FUZZ_TARGET(mutate_drawn) {
  fuzz::Shape shape = fuzz::small_shape();
  shape.wild = draw.ConsumeIntegralInRange<int>(0, 3) == 3;
  Problem problem;
  problem.limits.acoustic_scale = draw.ConsumeIntegralInRange<int>(0, 8) / 4.0;
  problem.limits.weight = static_cast<float>(draw.ConsumeIntegralInRange<int>(1, 16) / 4.0);
  problem.limits.beam =
      draw.ConsumeBool() ? 1000.0f : static_cast<float>(draw.ConsumeIntegralInRange<int>(0, 200) / 8.0);
  problem.limits.max_distance = static_cast<float>(draw.ConsumeIntegralInRange<int>(0, 16) / 8.0);
  problem.limits.max_spans = draw.ConsumeBool() ? 1000 : draw.ConsumeIntegralInRange<int32_t>(1, 3);
  const auto num_phones = draw.ConsumeIntegralInRange<int32_t>(1, 4);
  const auto draw_distance = [&draw] { return static_cast<float>(draw.ConsumeIntegral<uint8_t>()) / 64; };
  for (int32_t cell = 0; cell < num_phones * num_phones; ++cell) {
    const bool same = cell % (num_phones + 1) == 0;
    problem.substitution.push_back(same ? 0 : draw_distance());
  }
  for (int32_t phone = 0; phone < num_phones; ++phone) {
    problem.insertion.push_back(draw_distance());
    problem.deletion.push_back(draw_distance());
  }
  const int32_t num_units = draw.ConsumeIntegralInRange<int32_t>(1, 4);
  for (int32_t unit = 0; unit < num_units; ++unit) {
    for (int left = draw.ConsumeIntegralInRange<int>(0, 2); left > 0; --left)
      problem.sounds.draw_one(draw, 0, 3, num_phones);
    problem.first.push_back(static_cast<int64_t>(problem.sounds.begin.size()) - 1);
  }
  for (int left = draw.ConsumeIntegralInRange<int>(0, 20); left > 0; --left)
    problem.strings.draw_one(draw, 1, 5, num_phones);
  const fuzz::DrawnLattice drawn(draw, shape);
  problem.arcs = drawn.arcs();
  for (int64_t arc = 0; arc < problem.arcs.num_arcs; ++arc) problem.unit.push_back(problem.arcs.word[arc] % num_units);

  const fuzz::Array<int32_t> unit(problem.unit), sound(problem.sounds.phone), phone(problem.strings.phone);
  const fuzz::Array<int64_t> first(problem.first), sound_begin(problem.sounds.begin), begin(problem.strings.begin);
  const fuzz::Array<float> substitution(problem.substitution), insertion(problem.insertion), deletion(problem.deletion);
  const auto num_strings = static_cast<int64_t>(problem.strings.begin.size()) - 1;
  const ninja::Sounds sounds{unit.data(),
                             first.data(),
                             {static_cast<int64_t>(problem.sounds.begin.size()) - 1, sound_begin.data(), sound.data()}};
  const ninja::Spans spans =
      ninja::find_spans(problem.arcs, sounds, {num_strings, begin.data(), phone.data()},
                        {num_phones, substitution.data(), insertion.data(), deletion.data()}, problem.limits);
  const size_t count = spans.string.size();
  fuzz::expect(spans.start.size() == count && spans.end.size() == count && spans.excess.size() == count &&
                   spans.distance.size() == count && spans.arc_begin.size() == count + 1 &&
                   spans.arc_begin.back() == static_cast<int64_t>(spans.arc.size()),
               "the arrays of spans fit each other");
  if (!shape.wild) expect_spans(problem, spans);
  const ninja::BestArcs best = ninja::best_arcs(problem.arcs, problem.limits.acoustic_scale);
  for (int64_t state = 0; state < problem.arcs.num_states; ++state) {
    const int64_t in = best.in[state], out = best.out[state];
    fuzz::expect(in < 0 || problem.arcs.dst[in] == state, "the best arc into a state enters it");
    fuzz::expect(out < 0 || (out >= problem.arcs.arc_begin[state] && out < problem.arcs.arc_begin[state + 1]),
                 "the best arc out of a state leaves it");
  }
}
