# unroll: make, make check, make demo, make bench, make install DESTDIR= PREFIX=
#
#   SANITIZE=address,undefined   instrumented build, in its own folder
#   DEPS=no                      never install Debian packages, fail instead
#   PROGRAM_PREFIX=unroll-       installs unroll-tokenize, unroll-prefill, ...

VERSION := $(shell sed -n 's/.*UNROLL_VERSION "\(.*\)"/\1/p' lib/base/base.h)
PREFIX ?= /usr/local
PROGRAM_PREFIX ?=
CC = gcc
OPTIMIZE = -O2
SANITIZE =

# The one list of Debian packages: to build, and further to test.
PACKAGES_BUILD = gcc libc6-dev libdeflate-dev libpcre2-dev zlib1g-dev
PACKAGES_CHECK = check groff-base mandoc pkg-config procps python3 strace util-linux

BUILD = build$(if $(SANITIZE),/sanitize)
BIN = $(BUILD)/bin
WARNINGS = -Wall -Wextra -Wconversion -Wstrict-prototypes -Wmissing-prototypes
FLAGS = -std=c11 -D_GNU_SOURCE -Ilib $(OPTIMIZE) -g -ffp-contract=off -pthread $(WARNINGS) \
        $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)
LIBS = -ldeflate -lz -lpcre2-8 -lm

PROGRAMS = $(basename $(notdir $(wildcard cmd/*.c)))
OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard lib/*/*.c))
UNIT_TESTS = $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/*.c))
LIBRARY = $(BUILD)/libunroll.a

all: deps-build
	+@$(MAKE) --no-print-directory programs
programs: $(PROGRAMS:%=$(BIN)/%) $(BIN)/unroll-small.gguf

# ---- packages: installed when we may, otherwise the one line that would is printed ----------------
define install_packages
@missing=; for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
if [ -n "$$missing" ] && command -v dpkg-query >/dev/null; then \
  if [ "$$(id -u)" = 0 ]; then as=; else as="sudo -n"; fi; \
  if [ "$(DEPS)" = no ] || ! $$as true 2>/dev/null; then \
    echo "these packages are missing; install them with:"; echo "  sudo apt-get install$$missing"; exit 1; fi; \
  echo "installing:$$missing"; export DEBIAN_FRONTEND=noninteractive; \
  $$as apt-get install -y --no-install-recommends $$missing >$(1:%=/dev/null) 2>&1 || \
  { $$as apt-get update >/dev/null && $$as apt-get install -y --no-install-recommends $$missing >/dev/null; }; fi
endef
deps-build:
	$(call install_packages,$(PACKAGES_BUILD))
deps-check:
	$(call install_packages,$(PACKAGES_BUILD) $(PACKAGES_CHECK))

# ---- building ----------------------------------------------------------------------------------------
# Instruction sets by file name; everything else runs on any machine of the architecture.
$(BUILD)/lib/kernel/%.o: OPTIMIZE = -O3
ifeq ($(shell uname -m),x86_64)
AVX2 = -mavx2 -mfma -mf16c
AVX512 = $(AVX2) -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni
$(BUILD)/lib/kernel/%_avx2.o: FLAGS += $(AVX2)
$(BUILD)/lib/kernel/%_avx512.o: FLAGS += $(AVX512)
$(BUILD)/lib/kernel/%_amx.o: FLAGS += $(AVX512) -mamx-tile -mamx-int8 -mamx-bf16
endif

# Flags that change rebuild: the stamp is touched only when its text differs.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(FLAGS)' | cmp -s - $@ || echo '$(CC) $(FLAGS)' > $@
FORCE:

$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -MMD -MP -c $< -o $@
$(LIBRARY): $(OBJECTS)
	@rm -f $@
	ar rcs $@ $^
$(BIN)/%: $(BUILD)/cmd/%.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $< $(LIBRARY) -Wl,--as-needed $(LIBS) -o $@
$(BIN)/unroll-small.gguf: examples/model/unroll-small.gguf
	@mkdir -p $(@D)
	cp $< $@
$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $< $(LIBRARY) -Wl,--as-needed $(LIBS) $(shell pkg-config --libs check 2>/dev/null) -o $@
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.SECONDARY:

clean:
	rm -rf build

.PHONY: all programs deps-build deps-check clean FORCE
