/* The exports of a provider, which do nothing: with the bindings of any world of the contract it is a component. */
#include <stdlib.h>

#include "provider.h"

#define WIT(name) exports_mcp_host_provider_resource_provider_##name

/* `mcp-host componentize` embeds the type of the component. */
void __component_type_object_force_link_provider(void) {}

void WIT(describe)(WIT(provider_info_t) * ret) { abort(); }
bool WIT(list_entries)(provider_string_t *parent, provider_string_t *cursor, uint32_t limit, WIT(page_t) * ret,
                       WIT(failure_t) * err) {
  abort();
}
bool WIT(list_templates)(provider_string_t *cursor, WIT(template_page_t) * ret, WIT(failure_t) * err) { abort(); }
bool WIT(read)(provider_string_t *path, WIT(list_contents_t) * ret, WIT(failure_t) * err) { abort(); }
bool WIT(stat)(provider_string_t *path, WIT(entry_t) * ret, WIT(failure_t) * err) { abort(); }
bool WIT(complete)(provider_string_t *template_, WIT(argument_t) * argument, WIT(list_argument_t) * known,
                   WIT(completion_t) * ret, WIT(failure_t) * err) {
  abort();
}
bool WIT(changes)(provider_list_string_t *watched, provider_string_t *since, WIT(change_set_t) * ret,
                  WIT(failure_t) * err) {
  abort();
}
