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

# The one list of Debian packages: to build, and further to test (MPI is built where it is there).
PACKAGES_BUILD = gcc libc6-dev libdeflate-dev libjansson-dev libpcre2-dev zlib1g-dev
PACKAGES_CHECK = check iproute2 libopenmpi-dev mandoc openmpi-bin pkg-config procps python3 python3-jinja2 python3-jsonschema python3-numpy util-linux

BUILD = build$(if $(SANITIZE),/sanitize)
BIN = $(BUILD)/bin
WARNINGS = -Wall -Wextra -Wconversion -Wstrict-prototypes -Wmissing-prototypes
# Hidden: a library must not find its own functions here, where a name is the same (json_string of libjansson).
FLAGS = -std=c11 -D_GNU_SOURCE -Ilib $(OPTIMIZE) -g -ffp-contract=off -fvisibility=hidden -pthread $(WARNINGS) \
        $(if $(SANITIZE),$(INSTRUMENT))
INSTRUMENT = -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer
LIBS = -ldeflate -lz -lpcre2-8 -ljansson -lm

PROGRAMS = $(basename $(notdir $(wildcard cmd/*.c)))
DIST_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard lib/dist/*.c))
OBJECTS = $(filter-out $(DIST_OBJECTS),$(patsubst %.c,$(BUILD)/%.o,$(wildcard lib/*/*.c)))
UNIT_TESTS = $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/*.c))
LIBRARY = $(BUILD)/libunroll.a

# The MPI build of prefill, where there is MPI; prefill starts it.
MPICC = mpicc
LIBEXEC = $(BUILD)/libexec/unroll
MPI_PROGRAMS = $(if $(shell command -v $(MPICC)),$(LIBEXEC)/prefill-mpi)
MPI_TESTS = $(if $(MPI_PROGRAMS),$(BUILD)/tests/mpi-matrix)

all: deps-build
	+@$(MAKE) --no-print-directory programs
programs: $(PROGRAMS:%=$(BIN)/%) $(BIN)/unroll-small.gguf $(MPI_PROGRAMS)

# ---- packages: installed when we may, otherwise the one line that would is printed -------------------
INSTALL_PACKAGES = DEPS='$(DEPS)' sh tests/tools/install-packages.sh
deps-build:
	@$(INSTALL_PACKAGES) $(PACKAGES_BUILD)
deps-check:
	@$(INSTALL_PACKAGES) $(PACKAGES_BUILD) $(PACKAGES_CHECK)

# ---- building ----------------------------------------------------------------------------------------
# Instruction sets by file name; everything else runs on any machine of the architecture.
$(BUILD)/lib/kernel/%.o $(BUILD)/tests/bench/%.o: OPTIMIZE = -O3
# The plain C kernels are instrumented; the others, held to them bit for bit, take the compiler minutes each that way.
$(BUILD)/lib/kernel/%_avx2.o $(BUILD)/lib/kernel/%_avx512.o $(BUILD)/lib/kernel/%_amx.o: INSTRUMENT =
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
$(DIST_OBJECTS) $(BUILD)/cmd/prefill-mpi.o $(MPI_TESTS) $(MPI_PROGRAMS): export OMPI_CC = $(CC)
$(BUILD)/lib/dist/%.o: lib/dist/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(MPICC) $(FLAGS) -MMD -MP -c $< -o $@
$(BUILD)/cmd/prefill-mpi.o: cmd/prefill.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -DUNROLL_MPI -MMD -MP -c $< -o $@
$(LIBEXEC)/prefill-mpi: $(BUILD)/cmd/prefill-mpi.o $(DIST_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	$(MPICC) $(FLAGS) $^ -Wl,--as-needed $(LIBS) -o $@
$(BUILD)/tests/mpi-matrix: $(BUILD)/tests/tools/mpi-matrix.o $(DIST_OBJECTS) $(LIBRARY)
	@mkdir -p $(@D)
	$(MPICC) $(FLAGS) $^ -Wl,--as-needed $(LIBS) -o $@
$(BIN)/unroll-small.gguf: examples/model/unroll-small.gguf
	@mkdir -p $(@D)
	cp $< $@
$(BUILD)/tests/%: $(BUILD)/tests/unit/%.o $(BUILD)/tests/models.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $< $(BUILD)/tests/models.o $(LIBRARY) -Wl,--as-needed $(LIBS) $(shell pkg-config --libs check 2>/dev/null) -o $@
$(BUILD)/tests/make-model: $(BUILD)/tests/tools/make-model.o $(BUILD)/tests/models.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $< $(BUILD)/tests/models.o $(LIBRARY) -Wl,--as-needed $(LIBS) -o $@
$(BUILD)/tests/draw-texts: $(BUILD)/tests/tools/draw-texts.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $< $(LIBRARY) -Wl,--as-needed $(LIBS) -o $@
$(BUILD)/tests/measure: $(BUILD)/tests/bench/measure.o $(LIBRARY)
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $< $(LIBRARY) -Wl,--as-needed $(LIBS) -o $@
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.SECONDARY:

# ---- using ---------------------------------------------------------------------------------------------
PROMPT = The capital of France is
demo: all
	$(BIN)/generate -v "$(PROMPT)" && echo

# TESTS= names some: make check TESTS='test_record sample'
check: deps-check
	+@$(MAKE) --no-print-directory check-programs
	tests/run $(BIN) $(TESTS)
check-programs: programs $(UNIT_TESTS) $(BUILD)/tests/make-model $(BUILD)/tests/draw-texts $(MPI_TESTS)

# BENCH= names some lines: make bench BENCH='decode prefill' PEER=folder-of-node-llama-cpp
bench: all $(BUILD)/tests/draw-texts $(BUILD)/tests/make-model $(BUILD)/tests/measure
	PEER='$(PEER)' python3 tests/bench/bench.py $(BIN) $(BENCH)
	$(if $(BENCH),,$(if $(MPI_PROGRAMS),python3 tests/bench/mpi.py $(BIN)))

format:
	clang-format -i cmd/*.[ch] lib/*/*.[ch] tests/*.[ch] tests/*/*.c

SHARE = $(DESTDIR)$(PREFIX)/share
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(SHARE)/unroll $(SHARE)/man/man1 $(SHARE)/man/man5 $(SHARE)/man/man7
	for p in $(PROGRAMS); do \
	    install -m 755 $(BIN)/$$p $(DESTDIR)$(PREFIX)/bin/$(PROGRAM_PREFIX)$$p && \
	    install -m 644 man/man1/$$p.1 $(SHARE)/man/man1/$(PROGRAM_PREFIX)$$p.1 || exit 1; done
	for p in $(MPI_PROGRAMS); do install -D -m 755 $$p $(DESTDIR)$(PREFIX)/libexec/unroll/$$(basename $$p) || exit 1; done
	install -m 644 man/man5/*.5 $(SHARE)/man/man5
	install -m 644 man/man7/*.7 $(SHARE)/man/man7
	install -m 644 examples/model/unroll-small.gguf $(SHARE)/unroll
	install -D -m 644 examples/completions/unroll.bash $(SHARE)/bash-completion/completions/$(PROGRAM_PREFIX)generate
	for p in $(filter-out generate,$(PROGRAMS)); do \
	    ln -sf $(PROGRAM_PREFIX)generate $(SHARE)/bash-completion/completions/$(PROGRAM_PREFIX)$$p || exit 1; done
	install -D -m 644 examples/completions/_unroll $(SHARE)/zsh/site-functions/_unroll
uninstall:
	for p in $(PROGRAMS); do rm -f $(DESTDIR)$(PREFIX)/bin/$(PROGRAM_PREFIX)$$p \
	    $(SHARE)/man/man1/$(PROGRAM_PREFIX)$$p.1 $(SHARE)/bash-completion/completions/$(PROGRAM_PREFIX)$$p; done
	rm -f $(SHARE)/man/man5/unroll-stream.5 $(SHARE)/man/man7/unroll.7 $(SHARE)/man/man7/unroll-loop.7
	rm -f $(SHARE)/zsh/site-functions/_unroll $(SHARE)/unroll/unroll-small.gguf
	rm -f $(DESTDIR)$(PREFIX)/libexec/unroll/prefill-mpi
	-rmdir $(SHARE)/unroll $(DESTDIR)$(PREFIX)/libexec/unroll

# Retrains the small model (about an hour); it replaces examples/model/unroll-small.gguf.
model:
	sh examples/model/make.sh $(BUILD)/model

dist:
	git archive --prefix=unroll-$(VERSION)/ -o unroll-$(VERSION).tar.gz HEAD

clean:
	rm -rf build

.PHONY: all programs deps-build deps-check demo check check-programs bench format install uninstall model dist clean FORCE
