/* Unit tests of the helpers and of functions, natively. */
#undef NDEBUG
#include <assert.h>
#include <mcp_functions.h>
#include <mcp_native.h>
#include <stdio.h>
#include <string.h>

#include "../src/internal.h"

static const char *numbers[8];
static const char *state = "1";

static mcp_result read_number(const mcp_arguments *of, mcp_body *body) {
  (void)of, (void)body;
  return mcp_not_found();
}

static mcp_result list_numbers(mcp_listing *listing) {
  for (size_t i = 0; numbers[i] != NULL; i++) {
    if (!mcp_listing_value(listing, numbers[i])) break;
  }
  return mcp_ok();
}

static mcp_result read_about(const mcp_arguments *of, mcp_body *body) {
  (void)of;
  mcp_body_json(body, "{}");
  return mcp_ok();
}

static mcp_result read_kind(const mcp_arguments *of, mcp_body *body) {
  (void)of;
  mcp_body_bytes(body, "\xff", 1);
  return mcp_ok();
}

static mcp_result list_kinds(mcp_listing *listing) {
  static const mcp_argument kinds[][2] = {{{"kind", "a"}, {"number", "1"}}, {{"kind", ""}, {"number", "2"}}, {{"kind", "a/b"}, {"number", "3"}}};
  for (size_t i = 0; i < 3; i++) {
    mcp_item item = {.values = kinds[i], .value_count = 2, .entry = {.title = "Kind"}};
    if (!mcp_listing_add(listing, item)) break;
  }
  return mcp_ok();
}

static mcp_result kind_state(const mcp_arguments *of, const char **now) {
  assert(mcp_argument_text(of, "kind") != NULL);
  *now = state;
  return mcp_ok();
}

static mcp_result complete_kind(const char *variable, const char *typed, mcp_completion *completion) {
  static const char *const values[] = {"one", "two"};
  assert(strcmp(variable, "kind") == 0);
  mcp_completion_match(completion, values, 2, typed);
  return mcp_ok();
}

static mcp_result read_typed(const mcp_arguments *of, mcp_body *body) {
  int64_t number = 0;
  double ratio = 0.5;
  bool flag = false;
  mcp_result result = mcp_i64_argument(of, "number", -10, 10, &number);
  if (result.code == MCP_OK) result = mcp_f64_argument(of, "ratio", &ratio);
  if (result.code == MCP_OK) result = mcp_bool_argument(of, "flag", &flag);
  if (result.code != MCP_OK) return result;
  const char *text = mcp_argument_text(of, "q");
  mcp_body_text(body, mcp_format("%d %g %d %s", (int)number, ratio, flag, text == NULL ? "none" : text));
  return mcp_ok();
}

static const mcp_resource resources[] = {
    {.path_template = "n/{number}", .name = "number", .read = read_number, .list = list_numbers},
    {.path_template = "about", .name = "about", .description = "What it is.", .read = read_about},
    {.path_template = "k/{kind}/{number}", .name = "kind", .read = read_kind, .list = list_kinds, .fingerprint = kind_state},
    {.path_template = "typed/{number}{?ratio,flag,q}", .name = "typed", .read = read_typed},
    {.path_template = "c/{kind}", .name = "completed", .read = read_number, .complete = complete_kind},
};

MCP_FUNCTIONS(resources, .name = "functions", .version = "1.0.0");

static void templates_are_matched_and_expanded(void) {
  static const struct {
    const char *path_template, *path, *name, *value;
  } cases[] = {{"log/{rev}{?path,limit}", "log/feature%2Fx?path=a/b&limit=3", "rev", "feature/x"},
               {"log/{rev}{?path,limit}", "log/x?limit=&path=a%26b", "path", "a&b"},
               {"{+file}/rows", "a/b%20c/rows", "file", "a/b c"},
               {"{a}-{b}", "x-y-z", "a", "x-y"},
               {"{+a}", "", "a", ""}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mcp_arguments of, again;
    assert(mcp_template_match(cases[i].path_template, cases[i].path, &of));
    assert(strcmp(mcp_arguments_get(&of, cases[i].name), cases[i].value) == 0);
    const char *path = mcp_template_expand(cases[i].path_template, of.values, of.count);
    assert(path != NULL && mcp_template_match(cases[i].path_template, path, &again) && again.count == of.count);
    assert(strcmp(mcp_arguments_get(&again, cases[i].name), cases[i].value) == 0);
  }
  static const char *const others[] = {"log/", "log/a/b", "log/%ff", "log/%00", "log/%", "log/a?x=1", "log/a?limit=1&limit=1", "Log/a"};
  mcp_arguments of;
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) assert(!mcp_template_match("log/{rev}{?limit}", others[i], &of));
  assert(!mcp_template_match("{+file}", "a%2Fb", &of));
  mcp_argument values[] = {{"rev", "a@b/c?"}, {"limit", "&"}};
  assert(strcmp(mcp_template_expand("log/{rev}{?limit}", values, 2), "log/a@b%2Fc%3F?limit=%26") == 0);
  assert(mcp_template_expand("log/{rev}{?limit}", values + 1, 1) == NULL);
  static const char *const wrong[] = {"{a}{a}", "{#a}", "{a,b}", "{?a}/b", "{a", "a?b", "{?a}{?b}", "{}", "{?a,a}", "{+a,b}", "a}"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) assert(mcp_template_problem(wrong[i]) != NULL);
  assert(mcp_template_problem("a/{b}/{+c}{?d,e}") == NULL);
  /* A hostile path costs no more than its length times the length of the parts. */
  char *slashes = mcp_alloc(5001);
  memset(slashes, '/', 5000);
  assert(!mcp_template_match("{+a}/x/{+b}/x/{+c}/y", slashes, &of));
}

static void arguments_are_converted(void) {
  static const char *const good[][2] = {{"typed/7", "7 0.5 0 none"}, {"typed/-7?ratio=2.50&flag=true&q=a%20b", "-7 2.5 1 a b"}};
  for (size_t i = 0; i < 2; i++) assert(strcmp(mcp_native_read_path(good[i][0]).text, good[i][1]) == 0);
  static const char *const wrong[][2] = {{"typed/07", "`number` must be an integer, such as 7, found \"07\""},
                                         {"typed/11", "`number` must be an integer from -10 to 10, found \"11\""},
                                         {"typed/9223372036854775808", "`number` must be an integer"},
                                         {"typed/1?ratio=1e5", "`ratio` must be a number"},
                                         {"typed/1?ratio=nan", "`ratio` must be a number"},
                                         {"typed/1?flag=1", "`flag` must be true or false"}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    mcp_result result = mcp_native_read_path(wrong[i][0]).result;
    assert(result.code == MCP_INVALID_REQUEST && strstr(result.message, wrong[i][1]) == result.message);
  }
}

static void set_numbers(const char *all) {
  size_t count = 0;
  for (const char *at = all; *at != '\0'; at++) numbers[count++] = mcp_copy(at, 1);
  numbers[count] = NULL;
}

static void a_listing_in_any_order_is_continued_after_changes(void) {
  static const char *const expected[] = {"n/5", "n/3", "n/9", "n/1", "about", "k/a/1", "k/a%2Fb/3"};
  for (uint32_t limit = 1; limit < 9; limit++) {
    const char *cursor = NULL;
    size_t count = 0;
    do {
      set_numbers("5391");
      mcp_native_list page = mcp_native_list_page(cursor, limit);
      assert(page.result.code == MCP_OK && page.count <= limit);
      for (size_t i = 0; i < page.count; i++) assert(strcmp(page.entries[i].path, expected[count++]) == 0);
      cursor = page.next_cursor;
    } while (cursor != NULL);
    assert(count == sizeof expected / sizeof expected[0]);
  }
  set_numbers("5391");
  const char *cursor = mcp_native_list_page(NULL, 3).next_cursor;
  static const char *const changed[] = {"45391", "531", "51"};
  for (size_t i = 0; i < 3; i++) {
    set_numbers(changed[i]);
    assert(strcmp(mcp_native_list_page(cursor, 1).entries[0].path, "n/1") == 0);
  }
  static const char *const foreign[] = {"", "x", "9:0:", "0:-1:", "0:0:zz", "0:0:aaaaaaaaaaaa0", "0:0"};
  for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
    assert(mcp_native_list_page(foreign[i], 1).result.code == MCP_INVALID_REQUEST);
  }
}

static void what_is_read_has_the_type_of_what_was_set(void) {
  mcp_native_read about = mcp_native_read_path("about");
  assert(about.is_text && strcmp(about.entry.mime_type, "application/json") == 0 && strcmp(about.entry.description, "What it is.") == 0);
  mcp_native_read kind = mcp_native_read_path("k/a/1");
  assert(!kind.is_text && strcmp(kind.entry.mime_type, "application/octet-stream") == 0 && strcmp(kind.entry.name, "a/1") == 0);
  assert(mcp_native_read_path("n/1").result.code == MCP_NOT_FOUND && mcp_native_read_path("x").result.code == MCP_NOT_FOUND);
}

static void values_are_completed_beside_the_known_ones(void) {
  mcp_argument kind = {"kind", "a"}, number = {"number", ""}, typed = {"kind", "t"};
  mcp_native_completion completion = mcp_native_complete("k/{kind}/{number}", number, &kind, 1);
  assert(completion.count == 1 && strcmp(completion.values[0], "1") == 0);
  completion = mcp_native_complete("c/{kind}", typed, NULL, 0);
  assert(completion.count == 1 && strcmp(completion.values[0], "two") == 0);
  mcp_completion each_once = {0};
  const char *repeated[] = {"b", "ab", "a", "ab", "a", "ab"};
  mcp_completion_match(&each_once, repeated, 6, "a");
  assert(each_once.values.count == 2 && each_once.total == 2);
  assert(strcmp(((const char **)each_once.values.items)[0], "ab") == 0);
}

static void a_fingerprint_may_be_a_function(void) {
  static const char *const watched[] = {"k/a/1", "about", "n/7", "typed/x"};
  set_numbers("1");
  mcp_native_changes start = mcp_native_poll(watched, 4, NULL);
  assert(start.result.code == MCP_OK);
  state = "2";
  mcp_native_changes later = mcp_native_poll(watched, 4, start.token);
  assert(later.count == 1 && strcmp(later.changed[0], watched[0]) == 0 && !later.listing_changed);
  set_numbers("12");
  assert(mcp_native_poll(watched, 4, start.token).listing_changed);
  mcp_native_changes foreign = mcp_native_poll(watched, 4, "?");
  assert(foreign.count == 4 && foreign.listing_changed);
}

static mcp_result entry_of_key(const char *key, mcp_entry *entry) {
  if (strcmp(key, "b") == 0) return mcp_not_found();
  *entry = (mcp_entry){.path = key, .name = key};
  return mcp_ok();
}

static void pages_of_keys_are_sorted(void) {
  static const char *const keys[] = {"c", "a", "d", "b"};
  mcp_page first = {0}, second = {0}, foreign = {0};
  assert(mcp_paginate(keys, 4, NULL, 2, entry_of_key, &first).code == MCP_OK);
  const mcp_entry *entries = first.entries.items;
  assert(first.entries.count == 1 && strcmp(entries[0].path, "a") == 0 && strcmp(first.next_cursor, ":b") == 0);
  assert(mcp_paginate(keys, 4, first.next_cursor, 2, entry_of_key, &second).code == MCP_OK);
  entries = second.entries.items;
  assert(second.entries.count == 2 && strcmp(entries[1].path, "d") == 0 && second.next_cursor == NULL);
  assert(mcp_paginate(keys, 4, "b", 2, entry_of_key, &foreign).code == MCP_INVALID_REQUEST);
}

static void the_config_is_read_by_types(void) {
  double ratio = 0;
  bool flag = false;
  mcp_native_config("ratio", "1.5");
  mcp_native_config("flag", "true");
  mcp_native_config("wrong", "much");
  assert(mcp_config_f64("ratio", &ratio).code == MCP_OK && ratio == 1.5);
  assert(mcp_config_bool("flag", &flag).code == MCP_OK && flag);
  assert(mcp_config_f64("none", &ratio).code == MCP_OK && ratio == 1.5);
  assert(strcmp(mcp_config_or("none", "other"), "other") == 0 && strcmp(mcp_config_or("wrong", "other"), "much") == 0);
  mcp_result results[] = {mcp_config_f64("wrong", &ratio), mcp_config_bool("wrong", &flag)};
  for (size_t i = 0; i < 2; i++) assert(results[i].code == MCP_INTERNAL && strstr(results[i].message, "`wrong` should be") != NULL);
}

int main(void) {
  void (*const tests[])(void) = {templates_are_matched_and_expanded,
                                 arguments_are_converted,
                                 a_listing_in_any_order_is_continued_after_changes,
                                 what_is_read_has_the_type_of_what_was_set,
                                 values_are_completed_beside_the_known_ones,
                                 a_fingerprint_may_be_a_function,
                                 pages_of_keys_are_sorted,
                                 the_config_is_read_by_types};
  size_t count = sizeof tests / sizeof tests[0];
  for (size_t i = 0; i < count; i++) {
    tests[i]();
    mcp_native_end_call();
  }
  printf("%zu tests passed\n", count);
  return 0;
}
