//go:build !wasip1

package provider

// Export exports a provider. In a native test it does nothing: call the provider itself, and [Stat] and [Complete].
func Export(info Info, open Open) {
	_, _ = info, open
}
