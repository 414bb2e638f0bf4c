//go:build !wasip1

package provider

// BeingPrepared is the error of a call that needs data that is not prepared yet.
func BeingPrepared() error { return beingPrepared(true, "") }

// Export exports a provider. In a native test it does nothing: call the provider itself, and [Stat] and [Complete].
func Export(info Info, open Open) {
	_, _ = info, open
}
