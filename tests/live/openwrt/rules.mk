# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# In place of OpenWrt's own: the package, built with this machine's compilers into OUT/root.
SHELL := /bin/bash
.SHELLFLAGS := -eu -c
INCLUDE_DIR := $(TOPDIR)
PKG_BUILD_DIR := $(OUT)/build
TARGET_CC := cc
TARGET_CFLAGS := -O2
TOOLCHAIN_INC_DIRS := /usr/include/$(shell uname -m)-linux-gnu
CLANG := clang
LLVM_STRIP := llvm-strip
CP := cp -fpR
INSTALL_DIR := install -d -m0755
INSTALL_BIN := install -m0755
INSTALL_DATA := install -m0644
INSTALL_CONF := install -m0600

define BuildPackage
all:
	mkdir -p $(PKG_BUILD_DIR)
	$(call Build/Prepare)
	$(call Build/Compile)
	$(call Package/$(1)/install,$(OUT)/root)
endef
